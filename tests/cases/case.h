/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For all cases: calls driver functions without a header, and prints to stdout what the trace must
 * contain. expect.py compares the two.
 *
 * One line is one event, as a JSON object; fields that are not named are not compared. In formats
 * ' means ". Members that begin with $ are for expect.py:
 *   "$id":"a"      names the id of this event a
 *   "$parent":"a"  the event's parent is the one named a;  "$parent":null: it has none
 *
 * A line that begins with "report " has what a report on the trace must contain (case_report()).
 */
#ifndef CASES_CASE_H
#define CASES_CASE_H

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CASE_SKIP 77 /* exit status: this driver cannot run the case */
#define UNUSED	  __attribute__((unused))

typedef uint64_t dptr;
typedef void *handle;

/* values of CUresult */
enum {
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600,
};

#define HEX  "'0x%llx'"
#define H(x) ((unsigned long long)(uintptr_t)(x))

static void *case_lib;
static bool case_quiet; /* calls made while no tracer is attached */

UNUSED static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "case: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

UNUSED static void case_open_path(const char *path)
{
	case_lib = dlopen(path, RTLD_NOW);
	if (!case_lib)
		die("cannot load %s: %s", path, dlerror());
}

UNUSED static void case_open(void)
{
	case_open_path("libcuda.so.1");
}

UNUSED static void *case_sym(const char *sym)
{
	void *p = dlsym(case_lib, sym);

	if (!p) {
		fprintf(stderr, "case: this driver has no %s\n", sym);
		exit(CASE_SKIP);
	}
	return p;
}

/* A driver function without prototype: 64-bit arguments must be cast to 64 bits. */
#define F(sym) ((int (*)())case_sym(#sym))

static const char *result_name(int r)
{
	switch (r) {
	case INVALID_VALUE:
		return "CUDA_ERROR_INVALID_VALUE";
	case OUT_OF_MEMORY:
		return "CUDA_ERROR_OUT_OF_MEMORY";
	case NOT_INITIALIZED:
		return "CUDA_ERROR_NOT_INITIALIZED";
	case INVALID_CONTEXT:
		return "CUDA_ERROR_INVALID_CONTEXT";
	case INVALID_HANDLE:
		return "CUDA_ERROR_INVALID_HANDLE";
	case NOT_FOUND:
		return "CUDA_ERROR_NOT_FOUND";
	default:
		return NULL;
	}
}

/* The public name: without _v2, _ptsz etc. */
static void public_name(const char *sym, char *name, size_t size)
{
	size_t len = strlen(sym), end;

	if (len > 5 && (!strcmp(sym + len - 5, "_ptsz") || !strcmp(sym + len - 5, "_ptds")))
		len -= 5;
	for (end = len; end && isdigit((unsigned char)sym[end - 1]); end--)
		;
	if (end < len && end > 2 && !strncmp(sym + end - 2, "_v", 2))
		len = end - 2;
	snprintf(name, size, "%.*s", (int)len, sym);
}

/* Written in one write(), since threads and processes share stdout. */
static void expect_line(const char *line, size_t len)
{
	if (write(STDOUT_FILENO, line, len) != (ssize_t)len)
		exit(1);
}

static void expect_v(const char *sym, int result, bool has_result, const char *fmt, va_list ap)
{
	char line[8192], format[2048], name[128];
	size_t len, i;

	if (case_quiet)
		return;
	public_name(sym, name, sizeof(name));
	len = snprintf(line, sizeof(line),
		       "{\"name\":\"%s\",\"symbol\":\"%s\",\"pid\":%d,\"tid\":%d", name, sym,
		       getpid(), (int)syscall(SYS_gettid));
	if (has_result)
		len += snprintf(line + len, sizeof(line) - len, ",\"result\":%d", result);
	if (has_result && result_name(result))
		len += snprintf(line + len, sizeof(line) - len, ",\"error\":\"%s\"",
				result_name(result));
	if (*fmt) {
		line[len++] = ',';
		for (i = 0; fmt[i] && i + 1 < sizeof(format); i++)
			format[i] = fmt[i] == '\'' ? '"' : fmt[i];
		format[i] = 0;
		len += vsnprintf(line + len, sizeof(line) - len, format, ap);
	}
	if (len + 3 > sizeof(line))
		die("expectation of %s too long", sym);
	len += snprintf(line + len, sizeof(line) - len, "}\n");
	expect_line(line, len);
}

UNUSED static void expect(const char *sym, int result, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	expect_v(sym, result, true, fmt, ap);
	va_end(ap);
}

/* Members that the report's JSON must have; others are not compared. */
UNUSED static void case_report(const char *fmt, ...)
{
	char line[8192], format[4096];
	size_t len, i;
	va_list ap;

	for (i = 0; fmt[i] && i + 1 < sizeof(format); i++)
		format[i] = fmt[i] == '\'' ? '"' : fmt[i];
	format[i] = 0;
	len = snprintf(line, sizeof(line), "report ");
	va_start(ap, fmt);
	len += vsnprintf(line + len, sizeof(line) - len, format, ap);
	va_end(ap);
	if (len + 2 > sizeof(line))
		die("report line too long");
	line[len++] = '\n';
	expect_line(line, len);
}

/* A call that does not return. */
UNUSED static void expect_no_result(const char *sym, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	expect_v(sym, 0, false, fmt, ap);
	va_end(ap);
}

/* Fails the case if one of its own calls did not have the wanted result. */
UNUSED static void must(const char *what, int got, int wanted)
{
	if (got != wanted)
		die("%s gave %d, not %d", what, got, wanted);
}

UNUSED static void case_init(void)
{
	int r = F(cuInit)(0);

	expect("cuInit", r, "'type':'init','op':'init','args':{'Flags':0}");
	must("cuInit", r, 0);
}

/* Initializes, and makes the primary context of device 0 current. */
UNUSED static handle case_context(void)
{
	handle ctx = NULL;
	int r;

	case_init();
	r = F(cuDevicePrimaryCtxRetain)(&ctx, 0);
	expect("cuDevicePrimaryCtxRetain", r,
	       "'type':'context','op':'retain','args':{'pctx':" HEX ",'dev':0}", H(ctx));
	must("cuDevicePrimaryCtxRetain", r, 0);
	r = F(cuCtxSetCurrent)(ctx);
	expect("cuCtxSetCurrent", r, "'type':'context','op':'set','args':{'ctx':" HEX "}", H(ctx));
	must("cuCtxSetCurrent", r, 0);
	return ctx;
}

UNUSED static void case_set_current(handle ctx)
{
	int r = F(cuCtxSetCurrent)(ctx);

	expect("cuCtxSetCurrent", r, "'type':'context','op':'set','args':{'ctx':" HEX "}", H(ctx));
}

UNUSED static dptr case_alloc(size_t size)
{
	dptr p = 0;
	int r = F(cuMemAlloc_v2)(&p, size);

	expect("cuMemAlloc_v2", r,
	       "'type':'memory','op':'alloc','size':%zu,'ptr':" HEX ",'args':{'dptr':" HEX
	       ",'bytesize':%zu}",
	       size, H(p), H(p), size);
	must("cuMemAlloc_v2", r, 0);
	return p;
}

UNUSED static void case_free(dptr p)
{
	int r = F(cuMemFree_v2)(p);

	expect("cuMemFree_v2", r,
	       "'type':'memory','op':'free','ptr':" HEX ",'args':{'dptr':" HEX "}", H(p), H(p));
	must("cuMemFree_v2", r, 0);
}

UNUSED static handle case_stream(unsigned flags)
{
	handle s = NULL;
	int r = F(cuStreamCreate)(&s, flags);

	expect("cuStreamCreate", r,
	       "'type':'stream','op':'create','args':{'phStream':" HEX ",'Flags':'%s'}", H(s),
	       flags ? "CU_STREAM_NON_BLOCKING" : "CU_STREAM_DEFAULT");
	must("cuStreamCreate", r, 0);
	return s;
}

UNUSED static void case_stream_sync(handle s)
{
	int r = F(cuStreamSynchronize)(s);

	expect("cuStreamSynchronize", r,
	       "'type':'sync','op':'sync','stream':" HEX ",'args':{'hStream':" HEX "}", H(s), H(s));
	must("cuStreamSynchronize", r, 0);
}

#define PTX_HEAD ".version 6.0\n.target sm_60\n.address_size 64\n"
#define PTX_KERNEL(name)                                                                           \
	".visible .entry " name "(.param .u64 a, .param .u32 n)\n"                                 \
	"{\n\tret;\n}\n"

UNUSED static handle case_module(const char *image)
{
	handle m = NULL;
	int r = F(cuModuleLoadData)(&m, image);

	expect("cuModuleLoadData", r,
	       "'type':'module','op':'load','args':{'module':" HEX ",'image':" HEX "}", H(m),
	       H(image));
	must("cuModuleLoadData", r, 0);
	return m;
}

/* demangled: NULL is not checked. */
UNUSED static handle case_function(handle module, const char *name, const char *demangled)
{
	handle f = NULL;
	int r = F(cuModuleGetFunction)(&f, module, name);

	expect("cuModuleGetFunction", r,
	       "'type':'module','op':'lookup','args':{'hfunc':" HEX ",'hmod':" HEX
	       ",'name':'%s'}%s%s%s",
	       H(f), H(module), name, demangled ? ",\"kernel\":\"" : "", demangled ? demangled : "",
	       demangled ? "\"" : "");
	must("cuModuleGetFunction", r, 0);
	return f;
}

/* A launch of a kernel of PTX_KERNEL; stream NULL is the default stream. capturing: the stream is
 * being captured, so the launch becomes a node of a graph. */
UNUSED static void case_launch_on(handle f, handle stream, const char *kernel, bool capturing)
{
	dptr a = 0;
	uint32_t n = 0;
	void *params[] = {&a, &n};
	int r = F(cuLaunchKernel)(f, 4, 3, 2, 32, 2, 1, 512, stream, params, NULL);

	expect("cuLaunchKernel", r,
	       "'type':'kernel','op':'launch','stream':" HEX ",'grid':[4,3,2],'block':[32,2,1],"
	       "'shared_mem':512,'kernel':'%s','capturing':%s,'args':{'f':" HEX
	       ",'gridDimX':4,'gridDimY':3,'gridDimZ':2,'blockDimX':32,'blockDimY':2,'blockDimZ':1,"
	       "'sharedMemBytes':512,'hStream':" HEX ",'kernelParams':" HEX ",'extra':null}",
	       H(stream), kernel, capturing ? "true" : "null", H(f), H(stream), H(params));
	must("cuLaunchKernel", r, 0);
}

UNUSED static void case_launch(handle f, handle stream, const char *kernel)
{
	case_launch_on(f, stream, kernel, false);
}

UNUSED static void case_sleep_ms(unsigned ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

/* A name as JSON text; names with arbitrary bytes are in hexadecimal, for expect.py. */
UNUSED static const char *hex_text(const char *s, char *buf, size_t size)
{
	size_t len = 0;

	for (; *s && len + 3 < size; s++)
		len += snprintf(buf + len, size - len, "%02x", (unsigned char)*s);
	buf[len] = 0;
	return buf;
}

#endif /* CASES_CASE_H */
