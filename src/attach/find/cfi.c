/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cfi.h"

#include "elf_file.h"

#include <string.h>

/* Maximum entries of .eh_frame_hdr; libtorch_cpu 2.11 has 350,000. */
#define CNT_MAX	   (4u << 20)
#define RECORD_MAX 8192 /* maximum bytes read of a CIE or FDE */
#define STATES_MAX 16
#define OFF_MAX	   (1u << 20)

/* DWARF numbers of registers, x86-64 */
#define REG_FP 6
#define REG_SP 7
#define REG_IP 16 /* the return address */

/* DW_EH_PE_* */
#define PE_PCREL_SDATA4	  0x1b
#define PE_UDATA4	  0x03
#define PE_DATAREL_SDATA4 0x3b

/* Bytes left to read. bad: too short, or unsupported. */
struct bytes {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t take(struct bytes *b, size_t len)
{
	uint64_t x = 0;

	if ((size_t)(b->end - b->p) < len) {
		b->bad = true;
		b->p = b->end;
		return 0;
	}
	memcpy(&x, b->p, len);
	b->p += len;
	return x;
}

static uint64_t take_uleb(struct bytes *b)
{
	uint64_t x = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		uint8_t byte = take(b, 1);

		x |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return x;
	}
	b->bad = true;
	return 0;
}

static uint64_t take_sleb(struct bytes *b)
{
	uint64_t x = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		uint8_t byte = take(b, 1);

		x |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return byte & 0x40 ? x | ~0ull << (shift + 7) : x;
	}
	b->bad = true;
	return 0;
}

static void skip(struct bytes *b, uint64_t len)
{
	if (len > (uint64_t)(b->end - b->p)) {
		b->bad = true;
		len = b->end - b->p;
	}
	b->p += len;
}

static void set_reg(struct bytes *b, uint64_t reg, struct cfi_frame *frame)
{
	b->bad |= reg != REG_FP && reg != REG_SP;
	frame->by_fp = reg == REG_FP;
}

/* State that a function's instructions change. */
struct run {
	const struct cfi_align *align;
	struct cfi_frame first; /* as set by the CIE */
	struct cfi_frame states[STATES_MAX];
	unsigned state_cnt;
};

/* Sets where the caller's value of a register is. Rules for other registers are ignored. */
static void set_place(struct bytes *b, uint64_t reg, enum cfi_place place, uint64_t off,
		      struct cfi_frame *frame)
{
	if (reg == REG_FP) {
		frame->fp = place;
		frame->fp_off = (int64_t)off;
	} else if (reg == REG_IP) {
		frame->last = place == CFI_UNKNOWN;
		/* A signal frame, or handwritten code. */
		b->bad |= place == CFI_SAME || (place == CFI_SAVED && (int64_t)off != -8);
	}
}

static void restore(uint64_t reg, const struct cfi_frame *first, struct cfi_frame *frame)
{
	if (reg == REG_FP) {
		frame->fp = first->fp;
		frame->fp_off = first->fp_off;
	} else if (reg == REG_IP) {
		frame->last = first->last;
	}
}

/* The value is in another register, or computed. */
static void set_elsewhere(struct bytes *b, struct cfi_frame *frame)
{
	uint64_t reg = take_uleb(b);

	b->bad |= reg == REG_IP;
	set_place(b, reg, CFI_UNKNOWN, 0, frame);
}

/* Runs one instruction that does not advance the location. */
static void step(struct bytes *b, uint8_t op, struct run *r, struct cfi_frame *frame)
{
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x05: /* offset_extended */
		reg = take_uleb(b);
		set_place(b, reg, CFI_SAVED, take_uleb(b) * r->align->data, frame);
		break;
	case 0x11: /* offset_extended_sf */
		reg = take_uleb(b);
		set_place(b, reg, CFI_SAVED, take_sleb(b) * r->align->data, frame);
		break;
	case 0x06: /* restore_extended */
		restore(take_uleb(b), &r->first, frame);
		break;
	case 0x07: /* undefined */
		set_place(b, take_uleb(b), CFI_UNKNOWN, 0, frame);
		break;
	case 0x08: /* same_value */
		set_place(b, take_uleb(b), CFI_SAME, 0, frame);
		break;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		set_elsewhere(b, frame);
		/* fall through */
	case 0x2e: /* GNU_args_size */
		take_uleb(b);
		break;
	case 0x0a: /* remember_state */
		if (r->state_cnt < STATES_MAX)
			r->states[r->state_cnt++] = *frame;
		else
			b->bad = true;
		break;
	case 0x0b: /* restore_state */
		if (r->state_cnt)
			*frame = r->states[--r->state_cnt];
		else
			b->bad = true;
		break;
	case 0x0c: /* def_cfa */
		set_reg(b, take_uleb(b), frame);
		frame->off = take_uleb(b);
		break;
	case 0x0d: /* def_cfa_register */
		set_reg(b, take_uleb(b), frame);
		break;
	case 0x0e: /* def_cfa_offset */
		frame->off = take_uleb(b);
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		set_elsewhere(b, frame);
		skip(b, take_uleb(b));
		break;
	default:
		b->bad = true;
	}
}

bool cfi_run(const uint8_t *code, size_t len, const struct cfi_align *align, uint64_t pc_off,
	     struct cfi_frame *frame)
{
	struct bytes b = {code, code + len, false};
	struct run r = {.align = align, .first = *frame};
	uint64_t at = 0;

	while (b.p < b.end && !b.bad) {
		uint8_t op = take(&b, 1);

		if (op >> 6 == 1) /* advance_loc */
			at += (op & 0x3f) * align->code;
		else if (op >= 0x02 && op <= 0x04) /* advance_loc1, 2, 4 */
			at += take(&b, 1u << (op - 2)) * align->code;
		else if (op >> 6 == 2) /* offset */
			set_place(&b, op & 0x3f, CFI_SAVED, take_uleb(&b) * align->data, frame);
		else if (op >> 6 == 3) /* restore */
			restore(op & 0x3f, &r.first, frame);
		else
			step(&b, op, &r, frame);
		if (at > pc_off)
			break;
	}
	return !b.bad && frame->off >= 8 && frame->off < OFF_MAX;
}

static bool read_vaddr(struct elf_file *f, uint64_t vaddr, void *buf, size_t len)
{
	const Elf64_Phdr *p = elf_file_segment(f, vaddr, len, 0);

	return p && !elf_file_read_at(f, vaddr - p->p_vaddr + p->p_offset, buf, len,
				      "call frame information");
}

bool cfi__open(struct cfi *c, struct elf_file *f)
{
	struct {
		uint8_t version, frame_enc, cnt_enc, table_enc;
		int32_t frame;
		uint32_t cnt;
	} head;
	unsigned i = 0;

	*c = (struct cfi){.f = f};
	while (i < f->eh.e_phnum && f->ph[i].p_type != PT_GNU_EH_FRAME)
		i++;
	if (i == f->eh.e_phnum || f->eh.e_machine != EM_X86_64)
		return false;
	c->hdr = f->ph[i].p_vaddr;
	if (!read_vaddr(f, c->hdr, &head, sizeof(head)) || head.version != 1 ||
	    head.frame_enc != PE_PCREL_SDATA4 || head.cnt_enc != PE_UDATA4 ||
	    head.table_enc != PE_DATAREL_SDATA4 || !head.cnt || head.cnt > CNT_MAX)
		return false;
	c->table = c->hdr + sizeof(head);
	c->cnt = head.cnt;
	return true;
}

/* Reads a row of the table: start of a function, and its record. Rows are read from the file when
 * needed: a stack needs few rows of up to 32 MiB. */
static bool read_row(const struct cfi *c, uint32_t i, uint64_t *begin, uint64_t *record)
{
	int32_t row[2];

	if (!read_vaddr(c->f, c->table + 8ull * i, row, sizeof(row)))
		return false;
	*begin = c->hdr + row[0];
	*record = c->hdr + row[1];
	return true;
}

/* Reads the record at address `at`, without its length. Returns its size; 0: not readable. */
static size_t read_record(const struct cfi *c, uint64_t at, uint8_t buf[RECORD_MAX])
{
	uint32_t len;

	if (!read_vaddr(c->f, at, &len, sizeof(len)) || len < 8 || len > RECORD_MAX)
		return 0;
	return read_vaddr(c->f, at + 4, buf, len) ? len : 0;
}

/* Data of a CIE that applies to its FDEs. */
struct cie {
	struct cfi_align align;
	struct cfi_frame frame;
};

static bool read_cie(const struct cfi *c, uint64_t at, struct cie *cie)
{
	uint8_t buf[RECORD_MAX];
	struct bytes b = {buf, buf + read_record(c, at, buf), false};
	const char *aug;
	uint8_t version;
	bool has_enc = false;
	const uint8_t *end;
	uint64_t len;

	if (b.p == b.end || take(&b, 4) != 0)
		return false;
	version = take(&b, 1);
	aug = (const char *)b.p;
	if ((version != 1 && version != 3) || !memchr(b.p, 0, b.end - b.p))
		return false;
	b.p += strlen(aug) + 1;
	cie->align.code = take_uleb(&b);
	cie->align.data = take_sleb(&b);
	take_uleb(&b); /* register of the return address */
	if (*aug != 'z')
		return false;
	len = take_uleb(&b);
	if (b.bad || len > (uint64_t)(b.end - b.p))
		return false;
	end = b.p + len;
	for (aug++; *aug && !b.bad; aug++) {
		if (*aug == 'R') {
			has_enc = take(&b, 1) == PE_PCREL_SDATA4;
		} else if (*aug == 'L') {
			take(&b, 1);
		} else if (*aug == 'P') {
			/* Its size is in bits 0 to 3: 4 bytes in everything built for x86-64. */
			if (((take(&b, 1) & 0x0f) | 8) != 0x0b)
				return false;
			take(&b, 4);
		} else if (*aug != 'S') {
			return false;
		}
	}
	if (b.bad || !has_enc)
		return false;
	cie->frame = (struct cfi_frame){0};
	return cfi_run(end, b.end - end, &cie->align, 0, &cie->frame);
}

bool cfi__find(const struct cfi *c, uint64_t pc, struct cfi_frame *frame)
{
	uint64_t at = 0, begin, record;
	uint32_t lo = 0, hi = c->cnt;
	uint8_t buf[RECORD_MAX];
	struct bytes b;
	struct cie cie;

	/* Find the last row that begins at or before pc. */
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (!read_row(c, mid, &begin, &record))
			return false;
		if (begin > pc) {
			hi = mid;
			continue;
		}
		lo = mid + 1;
		at = record;
	}
	if (!lo)
		return false;
	b = (struct bytes){buf, buf + read_record(c, at, buf), false};
	if (b.p == b.end)
		return false;
	at += 4;
	if (!read_cie(c, at - (uint32_t)take(&b, 4), &cie))
		return false;
	begin = at + 4 + (int32_t)take(&b, 4);
	if (pc < begin || pc - begin >= take(&b, 4))
		return false;
	skip(&b, take_uleb(&b));
	*frame = cie.frame;
	return !b.bad && cfi_run(b.p, b.end - b.p, &cie.align, pc - begin, frame);
}
