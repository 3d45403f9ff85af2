/* SPDX-License-Identifier: GPL-2.0-only */
/* nvidia:nvidia_dev_xid, with the fields of the real one (575 and later). */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvidia

#if !defined(NV_TRACEPOINT_H) || defined(TRACE_HEADER_MULTI_READ)
#define NV_TRACEPOINT_H

#include <linux/tracepoint.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define nv_assign_str(field, src) __assign_str(field)
#else
#define nv_assign_str(field, src) __assign_str(field, src)
#endif

/* clang-format off */
TRACE_EVENT(nvidia_dev_xid,
	TP_PROTO(const char *name, u32 error_code, const char *text),
	TP_ARGS(name, error_code, text),
	TP_STRUCT__entry(
		__string(dev, name)
		__field(u32, error_code)
		__string(msg, text)
	),
	TP_fast_assign(
		nv_assign_str(dev, name);
		__entry->error_code = error_code;
		nv_assign_str(msg, text);
	),
	TP_printk("%s: Xid %u: %s", __get_str(dev), __entry->error_code, __get_str(msg))
);
/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE nv_tracepoint
#include <trace/define_trace.h>
