/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_core.h"

#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/json.h"
#include "util/demangle.h"
#include "util/order.h"

#define EM_CUDA 190

/* Types of sections, by NVIDIA's header for core dumps (CUDA 12). */
enum {
	SHT_RELF_IMG = 0x80000007, /* code of a module, at its addresses */
	SHT_DEV_TABLE = 0x80000009,
	SHT_GRID_TABLE = 0x8000000c,
	SHT_CTA_TABLE = 0x8000000d,
	SHT_WARP_TABLE = 0x8000000e,
	SHT_LANE_TABLE = 0x8000000f,
};

/* The beginnings of their rows: newer drivers append members. */
struct grid_row {
	uint64_t id, context, function, entry, module, parent, params;
	uint32_t kernel_type, origin, status, regs;
	uint32_t grid[3], block[3];
};

struct lane_row {
	uint64_t pc, phys_pc;
	uint32_t lane, thread[3], exception;
};

/* Limits: a GPU has 10,000 warps. */
#define SAMPLES_MAX (1u << 19)
#define GRIDS_MAX   65536
#define LANES_MAX   32
#define IMAGE_MAX   (512u << 20)

/* Threads of one warp at one address; later merged over warps. */
struct sample {
	uint64_t grid, pc;
	uint32_t warps, lanes, exception;
	uint32_t heads; /* warps whose first thread is here: each warp counts once */
};

/* An address whose function is looked for. */
struct place {
	uint64_t pc, offset;
	char *name; /* mangled; NULL: unknown */
};

struct core {
	int fd;
	uint64_t size;
	Elf *elf;
	struct grid_row *grids;
	struct sample *samples;
	struct place *places; /* by pc */
	size_t grid_cnt, sample_cnt, place_cnt, grid_cap, sample_cap;
	uint64_t devices, warps;
	bool cut; /* more than the limits */
};

static bool read_at(const struct core *c, uint64_t off, void *to, size_t len)
{
	if (off > c->size || len > c->size - off)
		return false;
	return pread(c->fd, to, len, off) == (ssize_t)len;
}

static bool header_of(const struct core *c, uint64_t i, GElf_Shdr *h)
{
	Elf_Scn *scn = elf_getscn(c->elf, i);

	return scn && gelf_getshdr(scn, h);
}

/* Reads up to size bytes of a row. false: there is no such row. */
static bool row_of(const struct core *c, const GElf_Shdr *h, uint64_t row, void *to, size_t size)
{
	size_t len = h->sh_entsize < size ? h->sh_entsize : size;

	memset(to, 0, size);
	return h->sh_entsize && row < h->sh_size / h->sh_entsize &&
	       read_at(c, h->sh_offset + row * h->sh_entsize, to, len);
}

/* Makes room for one more. */
static bool grow(void **rows, size_t cnt, size_t *cap, size_t size, size_t max)
{
	void *grown;

	if (cnt < *cap)
		return true;
	if (cnt >= max)
		return false;
	grown = realloc(*rows, (*cap ? 2 * *cap : 256) * size);
	if (!grown)
		return false;
	*rows = grown;
	*cap = *cap ? 2 * *cap : 256;
	return true;
}

static void read_grids(struct core *c, const GElf_Shdr *h)
{
	struct grid_row g;

	for (uint64_t i = 0; row_of(c, h, i, &g, sizeof(g)); i++) {
		if (!grow((void **)&c->grids, c->grid_cnt, &c->grid_cap, sizeof(g), GRIDS_MAX)) {
			c->cut = true;
			return;
		}
		c->grids[c->grid_cnt++] = g;
	}
}

/* The grid of a warp: that of its block. */
static uint64_t grid_of(const struct core *c, const GElf_Shdr *lanes)
{
	GElf_Shdr warps, blocks;
	uint64_t id;

	if (header_of(c, lanes->sh_link, &warps) && warps.sh_type == SHT_WARP_TABLE &&
	    header_of(c, warps.sh_link, &blocks) && blocks.sh_type == SHT_CTA_TABLE &&
	    row_of(c, &blocks, warps.sh_info, &id, sizeof(id)))
		return id;
	return 0;
}

static void read_lanes(struct core *c, const GElf_Shdr *h)
{
	const uint64_t grid = grid_of(c, h);
	const size_t from = c->sample_cnt;
	struct lane_row lane;

	c->warps++;
	for (uint64_t i = 0; i < LANES_MAX && row_of(c, h, i, &lane, sizeof(lane)); i++) {
		size_t k = from;

		while (k < c->sample_cnt && c->samples[k].pc != lane.pc)
			k++;
		if (k == c->sample_cnt) {
			if (!grow((void **)&c->samples, k, &c->sample_cap, sizeof(*c->samples),
				  SAMPLES_MAX)) {
				c->cut = true;
				return;
			}
			c->samples[c->sample_cnt++] = (struct sample){
				.grid = grid, .pc = lane.pc, .warps = 1, .heads = !i};
		}
		c->samples[k].lanes++;
		if (lane.exception)
			c->samples[k].exception = lane.exception;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->grid != y->grid ? ASCENDING(x->grid, y->grid) : ASCENDING(x->pc, y->pc);
}

static void merge(struct core *c)
{
	size_t to = 0;

	if (c->sample_cnt)
		qsort(c->samples, c->sample_cnt, sizeof(*c->samples), by_place);
	for (size_t i = 0; i < c->sample_cnt; i++) {
		struct sample *x = &c->samples[i], *last = &c->samples[to ? to - 1 : 0];

		if (!to || by_place(last, x)) {
			c->samples[to++] = *x;
			continue;
		}
		last->warps += x->warps;
		last->lanes += x->lanes;
		last->heads += x->heads;
		last->exception = last->exception ?: x->exception;
	}
	c->sample_cnt = to;
}

/* Names */

static int by_pc(const void *a, const void *b)
{
	return ASCENDING(((const struct place *)a)->pc, ((const struct place *)b)->pc);
}

static bool list_places(struct core *c)
{
	size_t cnt = c->sample_cnt + c->grid_cnt, to = 0;

	c->places = calloc(cnt + 1, sizeof(*c->places));
	if (!c->places)
		return false;
	for (size_t i = 0; i < c->sample_cnt; i++)
		c->places[i].pc = c->samples[i].pc;
	for (size_t i = 0; i < c->grid_cnt; i++)
		c->places[c->sample_cnt + i].pc = c->grids[i].entry;
	qsort(c->places, cnt, sizeof(*c->places), by_pc);
	for (size_t i = 0; i < cnt; i++)
		if (!to || c->places[to - 1].pc != c->places[i].pc)
			c->places[to++] = c->places[i];
	c->place_cnt = to;
	return true;
}

/* The first place at or above the address. */
static size_t lower_bound(const struct core *c, uint64_t pc)
{
	return COUNT_LEADING(i, c->place_cnt, c->places[i].pc < pc);
}

static void name_places(struct core *c, uint64_t from, uint64_t size, const char *name)
{
	for (size_t i = lower_bound(c, from); i < c->place_cnt && c->places[i].pc - from < size;
	     i++) {
		struct place *p = &c->places[i];

		/* The innermost function is the one that begins last. */
		if (p->name && p->offset <= p->pc - from)
			continue;
		free(p->name);
		p->name = strndup(name, 4096);
		p->offset = p->pc - from;
	}
}

static void read_symbols(struct core *c, Elf *image, Elf_Scn *scn, const GElf_Shdr *table)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	GElf_Shdr code;
	Elf_Scn *in;
	GElf_Sym sym;

	for (int i = 0; data && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(image, table->sh_link, sym.st_name);

		if (GELF_ST_TYPE(sym.st_info) != STT_FUNC || !name || !*name)
			continue;
		in = elf_getscn(image, sym.st_shndx);
		if (!in || !gelf_getshdr(in, &code) || !(code.sh_flags & SHF_EXECINSTR))
			continue;
		/* Relative to its section, or already an address. */
		if (sym.st_value < code.sh_addr)
			sym.st_value += code.sh_addr;
		name_places(c, sym.st_value, sym.st_size ?: code.sh_size, name);
	}
}

static void read_image(struct core *c, const GElf_Shdr *h)
{
	char *bytes;
	Elf *image;
	Elf_Scn *scn = NULL;
	GElf_Shdr table;

	if (h->sh_size > IMAGE_MAX || !h->sh_size)
		return;
	bytes = h->sh_size <= c->size ? malloc(h->sh_size) : NULL;
	if (!bytes || !read_at(c, h->sh_offset, bytes, h->sh_size)) {
		free(bytes);
		return;
	}
	image = elf_memory(bytes, h->sh_size);
	while (image && (scn = elf_nextscn(image, scn)))
		if (gelf_getshdr(scn, &table) && table.sh_type == SHT_SYMTAB)
			read_symbols(c, image, scn, &table);
	elf_end(image);
	free(bytes);
}

/* The result */

struct grid_sum {
	const struct grid_row *row; /* NULL: its table lacks it */
	uint64_t id;
	size_t from, cnt; /* samples */
	uint64_t warps, lanes;
};

static int by_warps(const void *a, const void *b)
{
	const struct grid_sum *x = a, *y = b;

	return x->warps != y->warps ? ASCENDING(y->warps, x->warps) : ASCENDING(x->id, y->id);
}

static int by_sample_warps(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->warps != y->warps ? ASCENDING(y->warps, x->warps) : ASCENDING(x->pc, y->pc);
}

static const struct place *place_of(const struct core *c, uint64_t pc)
{
	size_t i = lower_bound(c, pc);

	return i < c->place_cnt && c->places[i].pc == pc ? &c->places[i] : NULL;
}

/* Returns the sums, one per grid with warps, then those without. */
static struct grid_sum *sum_grids(const struct core *c, size_t *cnt)
{
	struct grid_sum *sums = calloc(c->sample_cnt + c->grid_cnt + 1, sizeof(*sums));
	size_t n = 0, resident;

	for (size_t i = 0; sums && i < c->sample_cnt; i++) {
		const struct sample *x = &c->samples[i];

		if (!n || sums[n - 1].id != x->grid)
			sums[n++] = (struct grid_sum){.id = x->grid, .from = i};
		sums[n - 1].cnt++;
		sums[n - 1].warps += x->heads;
		sums[n - 1].lanes += x->lanes;
	}
	resident = n;
	for (size_t i = 0; sums && i < c->grid_cnt; i++) {
		size_t at = COUNT_LEADING(k, resident, sums[k].id < c->grids[i].id);

		if (at < resident && sums[at].id == c->grids[i].id)
			sums[at].row = &c->grids[i];
		else
			sums[n++] = (struct grid_sum){.id = c->grids[i].id, .row = &c->grids[i]};
	}
	*cnt = n;
	if (sums && n)
		qsort(sums, n, sizeof(*sums), by_warps);
	return sums;
}

static void put_dim(struct json *j, const char *name, const uint32_t dim[3])
{
	json_open_array(j, name);
	for (int i = 0; i < 3; i++)
		json_u64(j, NULL, dim[i]);
	json_close_array(j);
}

static void put_pc(const struct core *c, struct json *j, const struct sample *x)
{
	const struct place *p = place_of(c, x->pc);

	json_open(j, NULL);
	json_hex(j, "pc", x->pc);
	if (p && p->name) {
		json_str(j, "function", p->name);
		json_hex(j, "offset", p->offset);
	}
	json_u64(j, "warps", x->warps);
	json_u64(j, "threads", x->lanes);
	if (x->exception)
		json_u64(j, "exception", x->exception);
	json_close(j);
}

/* Returns its readable name, to be freed; NULL: unknown. */
static char *put_grid(struct core *c, struct json *j, const struct grid_sum *s)
{
	const struct place *p = s->row	 ? place_of(c, s->row->entry)
				: s->cnt ? place_of(c, c->samples[s->from].pc)
					 : NULL;
	char *name = NULL;

	if ((!p || !p->name) && s->cnt)
		p = place_of(c, c->samples[s->from].pc);
	if (p && p->name)
		name = demangle(p->name, NULL) ?: strdup(p->name);
	json_open(j, NULL);
	json_u64(j, "id", s->id);
	json_str(j, "kernel", name);
	if (s->row) {
		put_dim(j, "grid", s->row->grid);
		put_dim(j, "block", s->row->block);
	}
	json_u64(j, "warps", s->warps);
	json_u64(j, "threads", s->lanes);
	if (s->cnt)
		qsort(&c->samples[s->from], s->cnt, sizeof(*c->samples), by_sample_warps);
	json_open_array(j, "pcs");
	for (size_t i = 0; i < s->cnt && i < GPU_CORE_PCS; i++)
		put_pc(c, j, &c->samples[s->from + i]);
	json_close_array(j);
	json_u64(j, "pc_count", s->cnt);
	json_close(j);
	return name;
}

static int put_result(struct core *c, struct json *j, char *text, size_t size)
{
	size_t cnt, len = 0;
	struct grid_sum *sums = sum_grids(c, &cnt);

	if (!sums)
		return -ENOMEM;
	*text = '\0';
	json_u64(j, "devices", c->devices);
	json_u64(j, "warps", c->warps);
	json_open_array(j, "grids");
	for (size_t i = 0; i < cnt && i < GPU_CORE_GRIDS; i++) {
		char *name = put_grid(c, j, &sums[i]);

		if (len < size)
			len += snprintf(text + len, size - len, "%s%.100s: %" PRIu64 " warps",
					i ? ", " : "", name ?: "(unknown)", sums[i].warps);
		free(name);
	}
	json_close_array(j);
	json_u64(j, "grid_count", cnt);
	if (c->cut)
		json_bool(j, "cut", true);
	free(sums);
	return 0;
}

static void each_section(struct core *c, void (*fn)(struct core *, const GElf_Shdr *),
			 uint32_t type)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr h;

	while ((scn = elf_nextscn(c->elf, scn)))
		if (gelf_getshdr(scn, &h) && h.sh_type == type)
			fn(c, &h);
}

static void count_devices(struct core *c, const GElf_Shdr *h)
{
	c->devices += h->sh_entsize ? h->sh_size / h->sh_entsize : 0;
}

static const char *open_core(struct core *c)
{
	struct stat st;
	GElf_Ehdr h;

	if (fstat(c->fd, &st) || !S_ISREG(st.st_mode))
		return "it is not a regular file";
	c->size = st.st_size;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return "libelf is too old";
	c->elf = elf_begin(c->fd, ELF_C_READ, NULL);
	if (!c->elf || !gelf_getehdr(c->elf, &h) || gelf_getclass(c->elf) != ELFCLASS64)
		return "it is not a 64-bit ELF file";
	if (h.e_machine != EM_CUDA || h.e_type != ET_CORE)
		return "it is not a GPU core dump";
	return NULL;
}

int gpu_core_read(int fd, struct json *j, char *text, size_t size, const char **why)
{
	struct core c = {.fd = fd};
	int ret = -EINVAL;

	*why = open_core(&c);
	if (!*why) {
		each_section(&c, count_devices, SHT_DEV_TABLE);
		each_section(&c, read_grids, SHT_GRID_TABLE);
		each_section(&c, read_lanes, SHT_LANE_TABLE);
		merge(&c);
		*why = "out of memory";
		if (list_places(&c)) {
			each_section(&c, read_image, SHT_RELF_IMG);
			ret = put_result(&c, j, text, size);
			*why = ret ? *why : NULL;
		}
	}
	for (size_t i = 0; i < c.place_cnt; i++)
		free(c.places[i].name);
	free(c.places);
	free(c.samples);
	free(c.grids);
	elf_end(c.elf);
	return ret;
}
