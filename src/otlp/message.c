/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "message.h"

#include <string.h>

#include "util/out.h"
#include "util/plain.h"

/* Names of kernels may have thousands of characters. */
#define TEXT_MAX 512

struct otlp_span otlp_span_of_call(const struct trace_event *ev, const struct labels *l,
				   const char *command, uint64_t epoch_ns)
{
	const char *error = ev->is_error ? fn_result_name(ev->fn, ev->result) : NULL;

	return (struct otlp_span){
		.labels = l,
		.command = command,
		.pid = ev->pid,
		.tid = ev->tid,
		.name = ev->fn->symbol,
		.function = ev->fn->symbol,
		.start_ns = ev->start_ns + epoch_ns,
		.end_ns = ev->end_ns + epoch_ns,
		.class = api_class_name(ev->fn->class),
		.kernel = ev->has & (HAS_LAUNCH | HAS_KERNEL) ? ev->launch.kernel : NULL,
		.direction = ev->has & HAS_DIR ? copy_dir_name(ev->dir) : NULL,
		.error = ev->is_error && !error ? "unknown" : error,
		.has_stream = ev->has & HAS_STREAM,
		.stream = ev->stream,
		.has_bytes = ev->has & HAS_SIZE,
		.bytes = ev->size,
	};
}

void otlp_comma(struct out *o)
{
	if (o->len && o->buf[o->len - 1] != '[' && o->buf[o->len - 1] != '{')
		out_char(o, ',');
}

static void put_text(struct out *o, const char *s)
{
	out_json_str(o, s, strnlen(s, TEXT_MAX));
}

static void open_attr(struct out *o, const char *key)
{
	otlp_comma(o);
	out_lit(o, "{\"key\":\"");
	out_str(o, key);
	out_lit(o, "\",\"value\":{\"");
}

void otlp_put_attr(struct out *o, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	open_attr(o, key);
	out_lit(o, "stringValue\":");
	put_text(o, value);
	out_lit(o, "}}");
}

/* A target's name, spelled as in metrics, so that both belong to one service. */
static void put_name(struct out *o, const char *key, const char *name)
{
	char text[PLAIN_NAME_MAX(TEXT_MAX)];

	if (strlen(name) <= TEXT_MAX) {
		plain_name(text, name);
		otlp_put_attr(o, key, text);
	}
}

static void put_attr_u64(struct out *o, const char *key, uint64_t value)
{
	open_attr(o, key);
	out_lit(o, "intValue\":\"");
	out_u64(o, value);
	out_lit(o, "\"}}");
}

void otlp_put_u64(struct out *o, const char *key, uint64_t value)
{
	otlp_comma(o);
	out_char(o, '"');
	out_str(o, key);
	out_lit(o, "\":\"");
	out_u64(o, value);
	out_char(o, '"');
}

void otlp_put_scope(struct out *o, const char *version)
{
	out_lit(o, "\"scope\":{\"name\":\"cudatrace\",\"version\":");
	put_text(o, version);
	out_char(o, '}');
}

static void put_resource(struct out *o, const struct labels *l, const char *command, uint32_t pid,
			 const char *redacted, const char *host)
{
	out_lit(o, "{\"resource\":{\"attributes\":[");
	put_name(o, "service.name", l->container_name[0] ? l->container_name : command);
	otlp_put_attr(o, "host.name", host);
	put_name(o, "container.id", l->container);
	put_name(o, "k8s.namespace.name", l->namespace);
	put_name(o, "k8s.pod.name", l->pod);
	put_name(o, "k8s.pod.uid", l->pod_uid);
	put_name(o, "k8s.container.name", l->container_name);
	put_name(o, "process.executable.name", command);
	put_attr_u64(o, "process.pid", pid);
	otlp_put_attr(o, "cudatrace.redacted", redacted);
	out_lit(o, "]},");
}

void otlp_put_process(struct out *o, const struct otlp_span *s, const char *host,
		      const char *version)
{
	put_resource(o, s->labels, s->command, s->pid, s->redacted, host);
	out_lit(o, "\"scopeSpans\":[{");
	otlp_put_scope(o, version);
	out_lit(o, ",\"spans\":[");
}

static void put_hex(struct out *o, const uint8_t *bytes, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		out_char(o, "0123456789abcdef"[bytes[i] >> 4]);
		out_char(o, "0123456789abcdef"[bytes[i] & 15]);
	}
}

static void put_handle(struct out *o, const char *key, uint64_t handle)
{
	open_attr(o, key);
	out_lit(o, "stringValue\":\"");
	out_hex(o, handle);
	out_lit(o, "\"}}");
}

void otlp_put_span(struct out *o, const struct otlp_span *s)
{
	out_lit(o, "{\"traceId\":\"");
	put_hex(o, s->ids.trace, 16);
	out_lit(o, "\",\"spanId\":\"");
	put_hex(o, s->ids.span, 8);
	if (s->parent) {
		out_lit(o, "\",\"parentSpanId\":\"");
		put_hex(o, s->parent, 8);
	}
	out_lit(o, "\",\"name\":");
	put_text(o, s->name);
	out_lit(o, ",\"kind\":1"); /* SPAN_KIND_INTERNAL */
	otlp_put_u64(o, "startTimeUnixNano", s->start_ns);
	otlp_put_u64(o, "endTimeUnixNano", s->end_ns);
	out_lit(o, ",\"attributes\":[");
	put_attr_u64(o, "thread.id", s->tid);
	otlp_put_attr(o, "cuda.function", s->function);
	otlp_put_attr(o, "cuda.class", s->class);
	otlp_put_attr(o, "cuda.kernel", s->kernel);
	if (s->has_stream)
		put_handle(o, "cuda.stream", s->stream);
	if (s->has_bytes)
		put_attr_u64(o, "cuda.bytes", s->bytes);
	otlp_put_attr(o, "cuda.direction", s->direction);
	otlp_put_attr(o, "cuda.error", s->error);
	if (s->iteration) {
		put_attr_u64(o, "cuda.iteration", s->iteration);
		put_attr_u64(o, "cuda.calls", s->calls);
		put_attr_u64(o, "cuda.launches", s->launches);
		put_attr_u64(o, "cuda.errors", s->errors);
	}
	out_lit(o, "],\"status\":{");
	if (s->error && *s->error) {
		out_lit(o, "\"code\":2,\"message\":"); /* STATUS_CODE_ERROR */
		put_text(o, s->error);
	}
	out_lit(o, "}}");
}

void otlp_put_dossier(struct out *o, const struct otlp_dossier *d, const char *host,
		      const char *version)
{
	out_lit(o, "{\"resourceLogs\":[");
	put_resource(o, d->labels, d->command, d->pid, d->redacted, host);
	out_lit(o, "\"scopeLogs\":[{");
	otlp_put_scope(o, version);
	out_lit(o, ",\"logRecords\":[{");
	otlp_put_u64(o, "timeUnixNano", d->time_ns);
	otlp_put_u64(o, "observedTimeUnixNano", d->time_ns);
	/* SEVERITY_NUMBER_ERROR, SEVERITY_NUMBER_INFO */
	if (d->is_failure)
		out_lit(o, ",\"severityNumber\":17,\"severityText\":\"ERROR\"");
	else
		out_lit(o, ",\"severityNumber\":9,\"severityText\":\"INFO\"");
	out_lit(o, ",\"eventName\":\"cudatrace.dossier\",\"body\":{\"stringValue\":");
	put_text(o, *d->verdict ? d->verdict : *d->cause ? d->cause : d->folder);
	out_lit(o, "},\"attributes\":[");
	otlp_put_attr(o, "cudatrace.dossier.reason", d->reason);
	otlp_put_attr(o, "cudatrace.dossier.folder", d->folder);
	otlp_put_attr(o, "cudatrace.dossier.cause", d->cause);
	otlp_put_attr(o, "cudatrace.dossier.verdict", d->verdict);
	out_lit(o, "]}]}]}]}");
}
