/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --stalls: the loaded modules, and what their cubins have of a function: its machine code and the
 * source lines of its instructions. */
#include "cubin.h"
#include "stalls_priv.h"

#include <string.h>
#include <sys/uio.h>

#define MODULES_MAX 8192
#define CUBIN_MAX   (64u << 20)
#define LINES_LOG   14

struct module {
	const void *cubin; /* NULL: unloaded */
	size_t size;
	uint32_t crc;
};

static struct {
	const struct cupti *cupti;
	void (*release)(void *);
	uint32_t module_cnt;
	struct tables {
		struct module modules[MODULES_MAX];
		uint64_t lines[1 << LINES_LOG];
	} * mem;
	/* A copy of a cubin. */
	uint8_t *copy;
	size_t copy_sz;
	const struct module *copied;
} st;

bool stall_code_init(const struct cupti *c)
{
	st.cupti = c;
	st.release = (void (*)(void *))global_symbol("free");
	st.mem = sys_map(sizeof(*st.mem), 0);
	return st.mem;
}

void stall_code_loaded(const struct cupti_module *m)
{
	struct cupti_crc c = {.size = sizeof(c), .cubin_size = m->size, .cubin = m->cubin};
	struct module *to;
	uint32_t i;

	if (!m->cubin || !m->size || m->size > CUBIN_MAX || st.cupti->GetCubinCrc(&c))
		return;
	i = __atomic_fetch_add(&st.module_cnt, 1, __ATOMIC_RELAXED);
	/* The newest replace the oldest. */
	to = &st.mem->modules[i % MODULES_MAX];
	__atomic_store_n(&to->cubin, NULL, __ATOMIC_RELEASE);
	to->size = m->size;
	to->crc = c.crc;
	__atomic_store_n(&to->cubin, m->cubin, __ATOMIC_RELEASE);
}

void stall_code_unloaded(const struct cupti_module *m)
{
	uint32_t cnt = __atomic_load_n(&st.module_cnt, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < cnt && i < MODULES_MAX; i++) {
		const void *cubin = m->cubin;

		__atomic_compare_exchange_n(&st.mem->modules[i].cubin, &cubin, NULL, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}

/* Copies the module's cubin, unless it is the last one. Returns NULL if it is gone, or is not what
 * was loaded. */
static const uint8_t *copy_of(const struct module *m)
{
	const void *cubin = __atomic_load_n(&m->cubin, __ATOMIC_ACQUIRE);
	struct cupti_crc c = {.size = sizeof(c), .cubin_size = m->size};
	struct iovec from, to;

	if (st.copied == m && st.copy && cubin)
		return st.copy;
	st.copied = NULL;
	if (!cubin)
		return NULL;
	if (st.copy_sz < m->size) {
		if (st.copy)
			sys(SYS_munmap, st.copy, st.copy_sz);
		st.copy_sz = 0;
		st.copy = sys_map(m->size, 0);
		if (!st.copy)
			return NULL;
		st.copy_sz = m->size;
	}
	from = (struct iovec){(void *)cubin, m->size};
	to = (struct iovec){st.copy, m->size};
	c.cubin = st.copy;
	if (kernel_copy(&to, 1, &from, 1) != (long)m->size ||
	    __atomic_load_n(&m->cubin, __ATOMIC_ACQUIRE) != cubin || st.cupti->GetCubinCrc(&c) ||
	    (uint32_t)c.crc != m->crc)
		return NULL;
	st.copied = m;
	return st.copy;
}

void stall_code_drop(void)
{
	if (st.copy)
		sys(SYS_munmap, st.copy, st.copy_sz);
	st.copy = NULL;
	st.copy_sz = 0;
	st.copied = NULL;
}

static const struct module *module_of(const struct stall_fn *f)
{
	uint32_t cnt = __atomic_load_n(&st.module_cnt, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < cnt && i < MODULES_MAX; i++)
		if (st.mem->modules[i].crc == f->crc && st.mem->modules[i].cubin)
			return &st.mem->modules[i];
	return NULL;
}

void stall_code_send(struct thread *t, struct stall_fn *f)
{
	static union {
		struct ct_stall_code code;
		uint8_t bytes[sizeof(struct ct_stall_code) + CT_STALL_PART_MAX];
	} buf;
	const struct module *m;
	const uint8_t *cubin;
	struct cubin_code c;

	if (f->code_is_sent)
		return;
	f->code_is_sent = true;
	m = module_of(f);
	cubin = m ? copy_of(m) : NULL;
	if (!cubin || !code_find(cubin, m->size, f->name, &c) || c.size > CT_STALL_CODE_MAX) {
		stalls_shm()->no_code++;
		return;
	}
	for (uint32_t off = 0, len; off < c.size; off += len) {
		len = c.size - off < CT_STALL_PART_MAX ? c.size - off : CT_STALL_PART_MAX;
		buf.code = (struct ct_stall_code){
			.rec = {.size = sizeof(buf.code) + len,
				.kind = CT_REC_STALL_CODE,
				.tid = t->tid},
			.function = f->id,
			.size = c.size,
			.off = off,
			.len = len,
			.arch = c.arch,
		};
		memcpy(buf.code.code, c.at + off, len);
		/* The next interval sends it again. */
		if (!gpu_send(t, &buf.code.rec)) {
			f->code_is_sent = false;
			return;
		}
	}
}

static bool line_is_known(uint64_t key)
{
	uint64_t *at = &st.mem->lines[key >> (64 - LINES_LOG)];
	bool known = *at == key;

	*at = key;
	return known;
}

void stall_code_send_line(struct thread *t, struct stall_fn *f, uint32_t pc)
{
	static union {
		struct ct_stall_source source;
		uint8_t bytes[sizeof(struct ct_stall_source) + CT_STALL_FILE_MAX];
	} buf;
	const struct module *m;
	struct cupti_source s = {.size = sizeof(s), .function = f->name, .pc = pc};
	size_t len;

	if (f->no_lines || line_is_known(stalls_mix(f->id + pc) | 1))
		return;
	m = module_of(f);
	s.cubin = m ? copy_of(m) : NULL;
	s.cubin_size = m ? m->size : 0;
	if (!s.cubin || !st.cupti->GetSassToSourceCorrelation ||
	    st.cupti->GetSassToSourceCorrelation(&s) || !s.file || !*s.file || !s.line) {
		f->no_lines = true;
	} else {
		len = strnlen(s.file, CT_STALL_FILE_MAX);
		buf.source = (struct ct_stall_source){
			.rec = {.size = sizeof(buf.source) + len,
				.kind = CT_REC_STALL_SOURCE,
				.tid = t->tid},
			.function = f->id,
			.pc = pc,
			.line = s.line,
			.len = len,
		};
		memcpy(buf.source.file, s.file, len);
		gpu_send(t, &buf.source.rec);
	}
	if (st.release) {
		st.release(s.file);
		st.release(s.folder);
	}
}
