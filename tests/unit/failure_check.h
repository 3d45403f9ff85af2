/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For tests of explained failures: calls, errors, and the suspects. */
#ifndef TESTS_FAILURE_CHECK_H
#define TESTS_FAILURE_CHECK_H

#include "memory_check.h"
#include "decode/api_values.h"
#include "report/failure/failure_priv.h"

#define CTX 0xc0

UNUSED static const struct failure *failures(void)
{
	return r->an[AN_FAILURE];
}

UNUSED static void start(void)
{
	process("exec");
	context(CTX, 0);
	set_current(CTX);
}

UNUSED static uint64_t launch(const char *kernel, uint64_t stream)
{
	struct trace_event ev = factory_launch(&f, kernel, stream);

	return send(&ev);
}

UNUSED static void stream(uint64_t handle, const char *flags)
{
	char args[128];

	snprintf(args, sizeof(args), "'phStream':'0x%llx','Flags':'%s'", (unsigned long long)handle,
		 flags);
	on("cuStreamCreate", handle, args);
}

UNUSED static void sync_stream(uint64_t handle)
{
	struct trace_event ev = factory_sync(&f, handle);

	send(&ev);
}

UNUSED static void of_event(const char *symbol, uint64_t event)
{
	struct trace_event ev = factory_call(&f, symbol, 500, 1000);

	ev.has = HAS_CU_EVENT;
	ev.cu_event = event;
	send(&ev);
}

UNUSED static void ctx_sync(void)
{
	struct trace_event ev = begin("cuCtxSynchronize");

	send(&ev);
}

UNUSED static void error(int32_t result)
{
	struct trace_event ev = begin("cuCtxSynchronize");

	ev.result = result;
	ev.is_error = true;
	send(&ev);
}

/* The suspects of the first failure, separated by blanks. */
UNUSED static void suspects(const char *want, bool certain)
{
	char got[512] = "";

	finish();
	assert_int_equal(failures()->cnt, 1);
	for (unsigned i = 0; i < failures()->cases[0].listed_cnt; i++) {
		const struct work *x = &failures()->cases[0].suspects[i];

		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i ? " " : "",
			 x->kernel ? x->kernel : x->fn->name);
	}
	assert_string_equal(got, want);
	assert_int_equal(failures()->cases[0].certain, certain);
}

#endif /* TESTS_FAILURE_CHECK_H */
