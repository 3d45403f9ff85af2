/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Blocks of ioctls, for any device, command and driver version. */
#include "fuzz.h"

#include "decode/nv/nv_decode.h"
#include "decode/nv/objects.h"

static struct nv_range range(struct input *in, uint8_t *buf)
{
	struct nv_range r = {.off = take8(in), .len = take8(in)};

	take(in, buf, r.len);
	r.data = buf;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const drivers[] = {"470.57.02",  "515.43.04",  "525.147.05",
					      "535.54.03",  "550.163.01", "570.211.01",
					      "580.159.04", "595.45.04",  "999.1.1"};
	static struct nv_objects *objects;
	struct input in = {data, size};
	uint8_t bufs[8][256];
	struct nv_version version;
	struct nv_abi abi;

	if (!objects)
		objects = nv_objects__new(256);
	nv_version_parse(drivers[take8(&in) % (sizeof(drivers) / sizeof(drivers[0]))], &version);
	nv_abi_init(&abi, &version);
	for (int n = 0; in.left && n < 64; n++) {
		struct nv_decode_in d = {.abi = &abi, .dev = take8(&in) % 7};
		struct nv_ioctl io;
		uint8_t how = take8(&in);

		take(&in, &d.cmd, sizeof(d.cmd));
		d.finished = how & 1;
		d.ret = how & 2 ? -22 : 0;
		for (int i = 0; i < CT_NV_SPANS; i++) {
			d.entry.r[i] = range(&in, bufs[i]);
			d.exit.r[i] = range(&in, bufs[2 + i]);
			if (!(how & 4))
				continue;
			d.inner_entry.r[i] = range(&in, bufs[4 + i]);
			d.inner_exit.r[i] = range(&in, bufs[6 + i]);
		}
		nv_decode_ioctl(&d, &io);
		nv_objects__apply(objects, 1 + (how >> 4), &io);
		if (how & 8)
			nv_objects__close(objects, 1 + (how >> 4));
	}
	return 0;
}
