/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "metrics/gpus.h"

static void add(const char *dir, const char *bus, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, bus);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/information", dir, bus);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* As driver 580 writes it. */
static void information(void **state)
{
	char dir[] = "/tmp/cudatrace-gpus-XXXXXX", cmd[64];
	struct gpu gpus[GPUS_MAX];

	assert_non_null(mkdtemp(dir));
	assert_int_equal(gpus__read(dir, gpus), 0);
	add(dir, "0000:3b:00.0",
	    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n"
	    "GPU UUID: \t GPU-\?\?\?\?-\?\?\nDevice Minor: \t 1\n");
	add(dir, "0000:00:06.0",
	    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n"
	    "GPU UUID: \t GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac\nBus Type: \t PCIe\n"
	    "Bus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
	assert_int_equal(gpus__read(dir, gpus), 2);
	assert_string_equal(gpus[0].bus, "0000:00:06.0");
	assert_string_equal(gpus[0].uuid, "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac");
	assert_string_equal(gpus[0].model, "NVIDIA H200");
	assert_string_equal(gpus[0].minor, "0");
	assert_string_equal(gpus[1].uuid, "");
	assert_string_equal(gpus[1].minor, "1");
	assert_int_equal(gpus__read("/nonexistent", gpus), 0);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	assert_int_equal(system(cmd), 0);
}

static void names(void **state)
{
	char bus[32];

	gpus_bus("PCI:0000:3b:00", bus, sizeof(bus));
	assert_string_equal(bus, "0000:3b:00.0");
	gpus_bus("0000:3b:00.0", bus, sizeof(bus));
	assert_string_equal(bus, "0000:3b:00.0");
	gpus_bus("", bus, sizeof(bus));
	assert_string_equal(bus, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(information),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
