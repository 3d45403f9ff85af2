/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's configuration: errors are reported, and an accepted one can be printed. */
#include "fuzz.h"

#include <assert.h>

#include "daemon/config.h"

static void on_line(void *ctx, const char *key, const char *val)
{
	*(size_t *)ctx += strlen(key) + strlen(val);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = as_string(data, size);
	struct config_errors errors = {0};
	struct config *c = config__new();
	size_t sum = 0;
	bool good;

	assert(c);
	good = config__read_text(c, "fuzz.yaml", text, size, &errors);
	good &= config__set(c, text, &errors);
	good &= config__check(c, "fuzz.yaml", &errors);
	assert(good == !errors.cnt &&
	       strnlen(errors.text, sizeof(errors.text)) < sizeof(errors.text));
	config__print(c, on_line, &sum);
	config__free(c);
	free(text);
	return 0;
}
