/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads members of events as the rows of events.def describe them: one function per form. */
#include "saved_value.h"

/* 16 bytes in the kernel. */
#define COMM_MAX 64

_Static_assert(EVENT_FIELD_CNT < UINT16_MAX, "rows and keys have 16 bits");

const char *parse_key_name(unsigned key)
{
	return key <= EVENT_FIELD_CNT ? event_fields[key - 1].name : NULL;
}

/* Returns whether a member is read here: of those written by custom code, only these are. */
bool saved_takes(const struct event_field *f)
{
	switch (f - event_fields) {
	case F_line_pid:
	case F_line_tid:
	case F_line_comm:
	case F_call_args:
		return true;
	default:
		return f->size;
	}
}

/* Reads members written by custom code: see saved_takes(). */
static void take_by_hand(struct saved *s, struct trace_event *ev, const struct event_field *f,
			 const struct member *m)
{
	switch (f - event_fields) {
	case F_line_pid:
		ev->pid = s->pid;
		break;
	case F_line_tid:
		ev->tid = member_u64(m) + s->pid_add;
		break;
	case F_line_comm:
		ev->comm = m->len > COMM_MAX ? "(too long)" : member_str(s, m);
		break;
	case F_call_args:
		s->text.args = m->text;
		s->text.args_len = m->val == VAL_OBJECT ? m->len : 0;
		break;
	default:
		break;
	}
}

/* A new form needs a case here, or a row that is SHOWN or HAND. */
static inline void take(struct saved *s, struct trace_event *ev, const struct event_field *f,
			const struct member *m)
{
	void *at = (char *)ev + f->offset;
	bool is_there = true;

	if (!f->size) {
		take_by_hand(s, ev, f, m);
		return;
	}
	switch ((enum form)f->form) {
	case FORM_u32:
		*(uint32_t *)at = member_u64(m);
		break;
	case FORM_u64:
	case FORM_hex:
		*(uint64_t *)at = member_u64(m);
		break;
	case FORM_i32:
		*(int32_t *)at = member_i64(m);
		break;
	case FORM_i64:
		*(int64_t *)at = member_i64(m);
		break;
	case FORM_f64:
		*(double *)at = member_f64(m);
		break;
	case FORM_us:
	case FORM_milli:
	case FORM_duration:
		*(uint64_t *)at = member_fixed(m, 3, NULL);
		break;
	case FORM_ms:
		*(uint64_t *)at = member_fixed(m, 6, NULL);
		break;
	case FORM_sym:
		*(const char **)at = member_sym(s, m);
		is_there = *(const char **)at;
		break;
	case FORM_text:
	case FORM_text_null:
	case FORM_text_or_null:
		*(const char **)at = member_str(s, m);
		is_there = *(const char **)at;
		break;
	case FORM_yes:
	case FORM_flag:
		*(bool *)at = m->val == VAL_TRUE;
		break;
	case FORM_error:
	case FORM_by_handle:
		*(bool *)at = true;
		break;
	case FORM_opt_u64:
	case FORM_opt_hex:
		*(struct opt_u64 *)at = (struct opt_u64){member_u64(m), true};
		break;
	case FORM_opt_milli:
		*(struct opt_u64 *)at = (struct opt_u64){member_fixed(m, 3, NULL), true};
		break;
	case FORM_pid:
		*(uint32_t *)at = member_u64(m) + s->pid_add;
		break;
	case FORM_processor:
		*(uint32_t *)at = member_processor(m);
		break;
	case FORM_uvm_cause:
		*(uint32_t *)at = member_cause(m);
		break;
	case FORM_direction:
		*(enum copy_dir *)at = member_dir(m);
		is_there = *(enum copy_dir *)at != COPY_NONE;
		break;
	case FORM_dim:
		is_there = member_dim(m, at);
		break;
	case FORM_stack:
		*(const struct stack **)at = saved_stack_of(s, member_u64(m));
		break;
	case FORM_params:
		*(const struct launch_params **)at = saved_params(s, m);
		break;
	default:
		break;
	}
	if (is_there)
		ev->has |= f->has;
}

void saved_take(struct saved *s, struct trace_event *ev, enum event_kind kind,
		const struct json_value *p)
{
	for (const struct member *m = p->m; m < p->m + p->cnt; m++)
		if (s->take_of[kind][m->key])
			take(s, ev, &event_fields[s->take_of[kind][m->key] - 1], m);
}
