/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies in all directions, plain, 2D, 3D, asynchronous; memset. */
#include "case.h"

#include "../fake/copy2d.h"

#define SIZE 65536

struct side3d {
	size_t x, y, z, lod;
	uint32_t type;
	const void *host;
	dptr device;
	handle array;
	void *reserved;
	size_t pitch, height;
};

struct copy3d {
	struct side3d src, dst;
	size_t width, height, depth;
};

static char out[SIZE], back[SIZE];
static dptr a, b;

static void check_back(const char *what, size_t size)
{
	if (memcmp(out, back, size))
		die("%s: other bytes came back", what);
	memset(back, 0, sizeof(back));
}

static void plain(void)
{
	int r = F(cuMemcpyHtoD_v2)(a, out, (size_t)SIZE);

	expect("cuMemcpyHtoD_v2", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':%d,'bandwidth_gbps':{'$gt':0}"
	       ",'args':{'dstDevice':" HEX ",'srcHost':" HEX ",'ByteCount':%d}",
	       SIZE, H(a), H(out), SIZE);
	r = F(cuMemcpyDtoD_v2)(b, a, (size_t)SIZE);
	expect("cuMemcpyDtoD_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoD','size':%d,'args':{'dstDevice':" HEX
	       ",'srcDevice':" HEX "}",
	       SIZE, H(b), H(a));
	r = F(cuMemcpyDtoH_v2)(back, b, (size_t)SIZE);
	expect("cuMemcpyDtoH_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoH','size':%d,'bandwidth_gbps':{'$gt':0}"
	       ",'args':{'dstHost':" HEX ",'srcDevice':" HEX ",'ByteCount':%d}",
	       SIZE, H(back), H(b), SIZE);
	check_back("plain copies", SIZE);
	r = F(cuMemcpyDtoH_v2)(back, (dptr)0x1000, (size_t)SIZE);
	expect("cuMemcpyDtoH_v2", r, "'type':'transfer','direction':'DtoH','size':%d", SIZE);
	must("copy from nowhere", r, INVALID_VALUE);
}

/* The direction is not in the name: it follows from the kinds of both addresses. The kind of the
 * program's own memory is unknown. */
static void unified(void)
{
	int r = F(cuMemcpy)(a, (dptr)(uintptr_t)out, (size_t)100);

	expect("cuMemcpy", r,
	       "'type':'transfer','op':'copy','direction':null,'size':100,'args':{'dst':" HEX
	       ",'src':" HEX ",'ByteCount':100}",
	       H(a), H(out));
	r = F(cuMemcpy)(b, a, (size_t)100);
	expect("cuMemcpy", r, "'type':'transfer','op':'copy','direction':'DtoD','size':100");
	r = F(cuMemcpy)((dptr)(uintptr_t)back, b, (size_t)100);
	expect("cuMemcpy", r, "'type':'transfer','op':'copy','direction':null,'size':100");
	check_back("unified copies", 100);
}

static void async(void)
{
	handle s = case_stream(1);
	int r;

	r = F(cuMemcpyHtoDAsync_v2)(a, out, (size_t)SIZE, s);
	expect("cuMemcpyHtoDAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':%d,'stream':" HEX
	       ",'args':{'dstDevice':" HEX ",'srcHost':" HEX ",'hStream':" HEX "}",
	       SIZE, H(s), H(a), H(out), H(s));
	r = F(cuMemcpyDtoDAsync_v2)(b, a, (size_t)SIZE, s);
	expect("cuMemcpyDtoDAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoD','size':%d,'stream':" HEX, SIZE,
	       H(s));
	r = F(cuMemcpyDtoHAsync_v2)(back, b, (size_t)SIZE, s);
	expect("cuMemcpyDtoHAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoH','size':%d,'stream':" HEX, SIZE,
	       H(s));
	case_stream_sync(s);
	check_back("asynchronous copies", SIZE);
	r = F(cuMemcpyAsync)(a, (dptr)(uintptr_t)out, (size_t)64, s);
	expect("cuMemcpyAsync", r,
	       "'type':'transfer','op':'copy','direction':null,'size':64,'stream':" HEX, H(s));
	case_stream_sync(s);
	if (dlsym(case_lib, "cuFakeNest")) { /* a real driver crashes */
		r = F(cuMemcpyHtoDAsync_v2)(a, out, (size_t)SIZE, (handle)0x77777000);
		must("copy on no stream", r, INVALID_HANDLE);
		expect("cuMemcpyHtoDAsync_v2", r, "'type':'transfer','stream':'0x77777000'");
	}
	r = F(cuStreamDestroy_v2)(s);
	expect("cuStreamDestroy_v2", r, "'type':'stream','op':'destroy'");
}

static void two_dimensional(void)
{
	struct copy2d p = {.src_type = 1, .dst_type = 2, .src_pitch = 256, .dst_pitch = 512};
	int r;

	p.src_host = out;
	p.dst_device = a;
	p.width = 200;
	p.height = 16;
	r = F(cuMemcpy2D_v2)(&p);
	expect("cuMemcpy2D_v2", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':3200,'args':{'pCopy':{"
	       "'srcMemoryType':'CU_MEMORYTYPE_HOST','srcHost':" HEX ",'srcPitch':256,"
	       "'dstMemoryType':'CU_MEMORYTYPE_DEVICE','dstDevice':" HEX
	       ",'dstPitch':512,'WidthInBytes':200,'Height':16}}",
	       H(out), H(a));
	must("cuMemcpy2D_v2", r, 0);
	p = (struct copy2d){.src_type = 2, .dst_type = 1, .src_pitch = 512, .dst_pitch = 256};
	p.src_device = a;
	p.dst_host = back;
	p.width = 200;
	p.height = 16;
	r = F(cuMemcpy2DAsync_v2)(&p, NULL);
	expect("cuMemcpy2DAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoH','size':3200,'stream':'0x0'");
	case_stream_sync(NULL);
	for (int y = 0; y < 16; y++)
		if (memcmp(out + 256 * y, back + 256 * y, 200))
			die("2D copy: other bytes came back");
	memset(back, 0, sizeof(back));
}

static void three_dimensional(void)
{
	struct copy3d p = {.width = 64, .height = 8, .depth = 4};
	int r;

	p.src = (struct side3d){.type = 1, .host = out, .pitch = 64, .height = 8};
	p.dst = (struct side3d){.type = 2, .device = a, .pitch = 128, .height = 8};
	r = F(cuMemcpy3D_v2)(&p);
	expect("cuMemcpy3D_v2", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':2048,'args':{'pCopy':{"
	       "'srcHost':" HEX ",'srcPitch':64,'srcHeight':8,'dstDevice':" HEX
	       ",'dstPitch':128,'WidthInBytes':64,'Height':8,'Depth':4}}",
	       H(out), H(a));
	must("cuMemcpy3D_v2", r, 0);
	p.dst.type = 1;
	p.dst.host = back;
	p.dst.device = 0;
	p.dst.pitch = 64;
	p.src = (struct side3d){.type = 2, .device = a, .pitch = 128, .height = 8};
	r = F(cuMemcpy3DAsync_v2)(&p, NULL);
	expect("cuMemcpy3DAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoH','size':2048,'stream':'0x0'");
	case_stream_sync(NULL);
	check_back("3D copy", 2048);
}

static void set(void)
{
	int r = F(cuMemsetD8_v2)(a, 0x5a, (size_t)1000);

	expect("cuMemsetD8_v2", r,
	       "'type':'transfer','op':'memset','size':1000,'ptr':" HEX ",'args':{'dstDevice':" HEX
	       ",'N':1000}",
	       H(a), H(a));
	r = F(cuMemsetD16_v2)(a, 0x1234, (size_t)1000);
	expect("cuMemsetD16_v2", r, "'type':'transfer','op':'memset','size':2000");
	r = F(cuMemsetD32_v2)(a, 0xdeadbeef, (size_t)1000);
	expect("cuMemsetD32_v2", r, "'type':'transfer','op':'memset','size':4000");
	r = F(cuMemsetD32Async)(b, 7, (size_t)256, NULL);
	expect("cuMemsetD32Async", r,
	       "'type':'transfer','op':'memset','size':1024,'stream':'0x0','args':{'dstDevice':" HEX
	       ",'N':256,'hStream':'0x0'}",
	       H(b));
	r = F(cuMemsetD2D8_v2)(a, (size_t)512, 1, (size_t)100, (size_t)10);
	expect("cuMemsetD2D8_v2", r,
	       "'type':'transfer','op':'memset','size':1000,'args':{'dstPitch':512,'Width':100,"
	       "'Height':10}");
	case_stream_sync(NULL);
}

int main(void)
{
	handle ctx;
	int r;

	case_open();
	ctx = case_context();
	for (int i = 0; i < SIZE; i++)
		out[i] = i * 7 + i / 251;
	a = case_alloc(SIZE);
	b = case_alloc(SIZE);
	plain();
	unified();
	async();
	two_dimensional();
	three_dimensional();
	set();
	r = F(cuMemcpyPeer)(b, ctx, a, ctx, (size_t)128);
	expect("cuMemcpyPeer", r,
	       "'type':'transfer','op':'copy','direction':'peer','size':128,'args':{'dstDevice':" HEX
	       ",'dstContext':" HEX ",'srcDevice':" HEX "}",
	       H(b), H(ctx), H(a));
	case_free(b);
	case_free(a);
	return 0;
}
