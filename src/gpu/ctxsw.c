/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ctxsw.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Branches of the driver whose sources were compared. Before OLDEST the memory parameters have
 * another size. */
#define KNOWN_FIRST 580
#define KNOWN_LAST  595
#define OLDEST	    545

/* Two seconds of a GPU that switches every 0.5 ms. */
#define RECORD_CNT  8192
#define HEADER_SZ   4096
#define RECORDS_SZ  (RECORD_CNT * FECS_RECORD_SZ)
#define SAMPLES	    3
#define CLOCK_PAIRS 16

enum {
	CLASS_DEVICE = 0x80,
	CLASS_SUBDEVICE = 0x2080,
	CLASS_EVENT_BUFFER = 0x90cd,
	CLASS_MEMORY_DEVICELESS = 0x90ce,
};

#define CMD_ID_INFO    0x205u
#define CMD_GPU_INFO   0x20800102u
#define CMD_TIMES      0x20800406u
#define CMD_BIND       0x20801238u
#define CMD_ENABLE     0x90cd0101u
#define CMD_UPDATE_GET 0x90cd0102u
#define CMD_FLUSH      0x90cd0104u

struct id_info {
	uint32_t id, flags, device, subdevice, sli, board, instance;
	int32_t numa;
};

struct device_params {
	uint32_t device, share, target_client, target_device, flags, pad0;
	uint64_t va_size, va_start, va_limit;
	uint32_t va_mode, pad1;
};

#define INFO_MAX	128
#define INFO_SMC_MODE	0x2a /* MIG */
#define SMC_UNSUPPORTED 0
#define SMC_DISABLED	2
struct gpu_info {
	uint32_t cnt;
	struct {
		uint32_t index, data;
	} list[INFO_MAX];
};

#define MEMORY_MAPPING_NOT_REQUIRED 0x8000
#define ATTR_WRITE_BACK		    (5u << 29)
#define ATTR2_USER_READ_ONLY	    (1u << 22)
struct memory_params {
	uint32_t owner, type, flags, width, height;
	int32_t pitch;
	uint32_t attr, attr2, format, compression, zcull, pad0;
	uint64_t low, high, size, alignment, offset, limit, address;
	uint32_t tags, vaspace, internal, tag;
	int32_t numa;
	uint32_t pad1;
};

/* The driver uses no_notification as a pointer unless it is an event: it must be 0. */
struct buffer_params {
	uint64_t header_address, records_address;
	uint32_t record_size, record_cnt;
	uint64_t vardata_address;
	uint32_t vardata_size, records_threshold;
	uint64_t no_notification;
	uint32_t vardata_threshold, subdevice, flags;
	uint32_t header, records, vardata;
};

struct buffer_header {
	uint32_t get, put;
	uint64_t count, dropped, vardata_dropped;
};

struct bind_params {
	uint32_t buffer, unused_size, detail, filter;
	uint8_t all_users, pad[3];
	uint32_t reason;
};

#define KEEP_OLDEST 1
struct enable_params {
	uint8_t enable, pad[3];
	uint32_t policy;
};

struct get_params {
	uint32_t get, vardata_get;
};

#define CLOCK_PLATFORM 3 /* CLOCK_MONOTONIC_RAW */
struct times_params {
	uint8_t clock, cnt, pad[6];
	struct {
		uint64_t cpu, gpu;
	} samples[16];
};

_Static_assert(sizeof(struct id_info) == 32, "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS");
_Static_assert(sizeof(struct device_params) == 56, "NV0080_ALLOC_PARAMETERS");
_Static_assert(sizeof(struct memory_params) == 128 && offsetof(struct memory_params, size) == 64 &&
		       offsetof(struct memory_params, numa) == 120,
	       "NV_MEMORY_ALLOCATION_PARAMS since 545");
_Static_assert(sizeof(struct buffer_params) == 72 &&
		       offsetof(struct buffer_params, no_notification) == 40 &&
		       offsetof(struct buffer_params, subdevice) == 52 &&
		       offsetof(struct buffer_params, records) == 64,
	       "NV_EVENT_BUFFER_ALLOC_PARAMETERS");
_Static_assert(sizeof(struct buffer_header) == 32, "NV_EVENT_BUFFER_HEADER");
_Static_assert(sizeof(struct bind_params) == 24, "..._GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS");
_Static_assert(sizeof(struct enable_params) == 8, "..._EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS");
_Static_assert(sizeof(struct get_params) == 8, "..._EVENT_BUFFER_CTRL_CMD_UPDATE_GET_PARAMS");
_Static_assert(sizeof(struct times_params) == 264,
	       "NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS");
/* The ring must be contiguous memory. */
_Static_assert(RECORDS_SZ <= 4 << 20 && RECORDS_SZ % 4096 == 0, "size of the ring");
_Static_assert(FECS_RECORD_SZ == 32, "the driver copies 8 + 24 bytes into each slot");

/* Formats why a step failed, from the result of a call of rm.h. */
static int failed(char *why, const struct nv_abi *abi, const char *what, int ret)
{
	const char *name = ret > 0 ? nv_status_name(abi, ret, NULL) : NULL;

	if (ret < 0)
		snprintf(why, CTXSW_WHY_SZ, "%s: %s", what, strerror(-ret));
	else if (name)
		snprintf(why, CTXSW_WHY_SZ, "%s: the driver returned %s", what, name);
	else
		snprintf(why, CTXSW_WHY_SZ, "%s: the driver returned 0x%x", what, ret);
	return ret;
}

static int refused(char *why, const char *words)
{
	snprintf(why, CTXSW_WHY_SZ, "%s", words);
	return -ENOTSUP;
}

/* Measures the offset of the GPU's clock: the median of several samples. Our own two clocks are
 * read as close together as possible. */
static int sample(struct gpu_log *l)
{
	int64_t diff[SAMPLES], raw_to_mono = 0;
	uint64_t width = UINT64_MAX, error;

	for (int i = 0; i < SAMPLES; i++) {
		struct times_params t = {.clock = CLOCK_PLATFORM, .cnt = 1};
		int ret = rm__control(l->rm, l->subdevice, CMD_TIMES, &t, sizeof(t)), k = i;
		int64_t d = (int64_t)(t.samples[0].cpu - t.samples[0].gpu);

		if (ret)
			return ret;
		for (; k && diff[k - 1] > d; k--)
			diff[k] = diff[k - 1];
		diff[k] = d;
	}
	for (int i = 0; i < CLOCK_PAIRS; i++) {
		uint64_t before = machine_ns(CLOCK_MONOTONIC_RAW), mono = now_ns();
		uint64_t took = machine_ns(CLOCK_MONOTONIC_RAW) - before;

		if (took < width) {
			width = took;
			raw_to_mono = (int64_t)(mono - (before + took / 2));
		}
	}
	l->offset_ns = diff[SAMPLES / 2] + raw_to_mono;
	error = (uint64_t)(diff[SAMPLES - 1] - diff[0]) / 2 + width / 2 + 1;
	if (error > l->error_ns)
		l->error_ns = error;
	return 0;
}

/* Checks for MIG before the bind, because a failed bind would end the log of other readers. */
static int check_mig(const struct gpu_log *l, const struct nv_abi *abi, char *why)
{
	const struct nv_rmctrl *row = nv_rmctrl_by_value(abi, CMD_GPU_INFO, NULL);
	int size = row ? nv_rmctrl_params_size(abi, row) : -1, ret;
	struct gpu_info info = {.cnt = 1, .list = {{.index = INFO_SMC_MODE}}};

	if (size < (int)sizeof(info) - (int)sizeof(info.list) + 8 || size > (int)sizeof(info))
		return refused(why, "cannot determine whether MIG is enabled");
	ret = rm__control(l->rm, l->subdevice, CMD_GPU_INFO, &info, size);
	if (ret)
		return failed(why, abi, "cannot determine whether MIG is enabled", ret);
	if (info.list[0].data == SMC_UNSUPPORTED || info.list[0].data == SMC_DISABLED)
		return 0;
	return refused(why,
		       "the GPU is split by MIG, whose instances switch contexts independently");
}

static int make_memory(const struct gpu_log *l, uint64_t size, uint32_t *memory)
{
	struct memory_params m = {
		.owner = l->rm->client,
		.flags = MEMORY_MAPPING_NOT_REQUIRED,
		.attr = ATTR_WRITE_BACK,
		.attr2 = ATTR2_USER_READ_ONLY,
		.size = size,
	};

	return rm__alloc(l->rm, l->rm->client, CLASS_MEMORY_DEVICELESS, &m, sizeof(m), memory);
}

/* The subdevice must be set: without it the driver would not check the GPU's owner. */
static int make_buffer(struct gpu_log *l)
{
	struct buffer_params b = {
		.record_size = FECS_RECORD_SZ,
		.record_cnt = RECORD_CNT,
		.subdevice = l->subdevice,
		.header = l->header_memory,
		.records = l->record_memory,
	};

	if (!b.subdevice || !b.header || !b.records)
		return -EINVAL;
	return rm__alloc(l->rm, l->rm->client, CLASS_EVENT_BUFFER, &b, sizeof(b), &l->buffer);
}

static int bind_buffer(struct gpu_log *l, const struct nv_abi *abi, char *why)
{
	static const char *const reasons[] = {
		[1] = "the GPU is too old for the log (before Turing)",
		[2] = "the driver has no log for this GPU: its model has none, or confidential computing "
		      "is on",
		[3] = "the log is not enabled: the GPU is virtual or split",
		[4] = "the driver requires an administrator: run as root",
		[5] = "profiling is not allowed in this virtual machine: enable it on the host",
	};
	struct bind_params b = {.buffer = l->buffer, .unused_size = 24, .all_users = 1};
	int ret = rm__control(l->rm, l->subdevice, CMD_BIND, &b, sizeof(b));

	if (ret && b.reason && b.reason < sizeof(reasons) / sizeof(reasons[0]))
		return refused(why, reasons[b.reason]);
	return ret ? failed(why, abi, "the driver refused the log", ret) : 0;
}

static int enable(const struct gpu_log *l)
{
	struct enable_params e = {.enable = 1, .policy = KEEP_OLDEST};

	return rm__control(l->rm, l->buffer, CMD_ENABLE, &e, sizeof(e));
}

static const struct buffer_header *header_of(const struct gpu_log *l)
{
	return l->header.at;
}

static uint64_t gpu_time(const struct gpu_log *l, uint64_t ns)
{
	return ns - (uint64_t)l->offset_ns;
}

static int make_objects(struct gpu_log *l, const struct rm_card *card)
{
	struct id_info id = {.id = card->id};
	struct device_params d = {.share = l->rm->client};
	uint32_t subdevice;
	int ret = rm__control(l->rm, l->rm->client, CMD_ID_INFO, &id, sizeof(id));

	if (ret)
		return ret;
	d.device = id.device;
	subdevice = id.subdevice;
	ret = rm__alloc(l->rm, l->rm->client, CLASS_DEVICE, &d, sizeof(d), &l->device);
	return ret
		       ?: rm__alloc(l->rm, l->device, CLASS_SUBDEVICE, &subdevice,
				    sizeof(subdevice), &l->subdevice);
}

static int make_log(struct gpu_log *l, const struct nv_abi *abi, char *why)
{
	const struct buffer_header *h;
	int ret;

	ret = make_memory(l, HEADER_SZ, &l->header_memory);
	ret = ret ?: make_memory(l, RECORDS_SZ, &l->record_memory);
	ret = ret ?: make_buffer(l);
	ret = ret ?: rm__map(l->rm, l->header_memory, HEADER_SZ, &l->header);
	ret = ret ?: rm__map(l->rm, l->record_memory, RECORDS_SZ, &l->records);
	if (ret)
		return failed(why, abi, "no memory for the log", ret);
	h = header_of(l);
	if (h->get || h->put || h->count || h->dropped)
		return refused(why, "the driver's memory has unexpected content");
	ret = sample(l);
	return ret ? failed(why, abi, "the GPU's clock cannot be read", ret) : 0;
}

static void log_close(struct gpu_log *l)
{
	rm__unmap(&l->header);
	rm__unmap(&l->records);
	/* This ends the log; its memory can be freed then. */
	rm__free(l->rm, l->buffer);
	rm__free(l->rm, l->record_memory);
	rm__free(l->rm, l->header_memory);
	rm__free(l->rm, l->device);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

static int log_open(struct gpu_log *l, const struct ctxsw *c, const struct rm_card *card, char *why)
{
	int ret;

	*l = (struct gpu_log){.rm = &c->rm, .minor = card->minor, .fd = -1};
	snprintf(l->bus, sizeof(l->bus), "%04x:%02x:%02x.%x", card->domain & 0xffff, card->bus,
		 card->slot & 0x1f, card->function & 7);
	l->fd = rm__open_gpu(&c->rm, card->minor);
	if (l->fd < 0)
		return failed(why, &c->abi, "it cannot be opened", l->fd);
	ret = make_objects(l, card);
	ret = ret ? failed(why, &c->abi, "it cannot be used", ret) : check_mig(l, &c->abi, why);
	ret = ret ?: make_log(l, &c->abi, why);
	l->sample_ns = now_ns();
	ret = ret ?: bind_buffer(l, &c->abi, why);
	if (!ret && (ret = enable(l)))
		failed(why, &c->abi, "the log cannot be enabled", ret);
	if (ret) {
		log_close(l);
		return ret;
	}
	fecs__init(&l->fecs, gpu_time(l, l->sample_ns));
	dbg("GPU %u (%s): context switches are logged, with a clock accurate to %" PRIu64 " ns",
	    l->minor, l->bus, l->error_ns);
	return 0;
}

static int check_version(struct ctxsw *c, bool force, char *why)
{
	struct nv_version v;
	char text[64];
	int ret = rm__version(&c->rm, text);

	if (ret)
		return failed(why, &c->abi, "the driver does not report its version", ret);
	if (!nv_version_parse(text, &v)) {
		snprintf(why, CTXSW_WHY_SZ, "the driver's version cannot be parsed");
		return -ENOTSUP;
	}
	nv_abi_init(&c->abi, &v);
	if (v.major >= KNOWN_FIRST && v.major <= KNOWN_LAST)
		return 0;
	if (v.major < OLDEST) {
		snprintf(why, CTXSW_WHY_SZ, "driver %u is too old: version %d or later is required",
			 v.major, OLDEST);
		return -ENOTSUP;
	}
	if (force) {
		warn("--gpu-ctxsw=force: driver %u.%u is unknown, and its calls may differ",
		     v.major, v.minor);
		return 0;
	}
	snprintf(why, CTXSW_WHY_SZ,
		 "cudatrace supports drivers %d to %d for this, and this is %u.%u: a changed "
		 "call could crash the kernel; --gpu-ctxsw=force tries it anyway",
		 KNOWN_FIRST, KNOWN_LAST, v.major, v.minor);
	return -ENOTSUP;
}

static int open_client(struct ctxsw *c, const struct ctxsw_opts *o, char *why)
{
	int ret = rm__open(&c->rm, o->any_file);

	if (ret == -ENOENT || ret == -ENXIO || ret == -ENODEV)
		return refused(why, "no NVIDIA driver is present");
	if (ret)
		return failed(why, &c->abi, "/dev/nvidiactl", ret);
	ret = check_version(c, o->force, why);
	if (ret)
		return ret;
	ret = rm__make_client(&c->rm);
	return ret ? failed(why, &c->abi, "the driver refused to create a client", ret) : 0;
}

static int open_logs(struct ctxsw *c, char *why)
{
	struct rm_card cards[RM_CARDS];
	int ret = rm__cards(&c->rm, cards);

	if (ret)
		return failed(why, &c->abi, "the driver does not list its GPUs", ret);
	refused(why, "no GPU is present");
	for (const struct rm_card *card = cards; card < cards + RM_CARDS; card++) {
		char text[CTXSW_WHY_SZ];

		if (!card->valid)
			continue;
		if (!log_open(&c->logs[c->cnt], c, card, text)) {
			c->cnt++;
			continue;
		}
		if (snprintf(why, CTXSW_WHY_SZ, "GPU %u: %s", card->minor, text) >= CTXSW_WHY_SZ)
			why[CTXSW_WHY_SZ - 1] = 0;
		/* For example, a GPU of another container. */
		dbg("--gpu-ctxsw: %s", why);
	}
	return c->cnt ? 0 : -ENOTSUP;
}

int ctxsw__open(struct ctxsw *c, const struct ctxsw_opts *o, char why[CTXSW_WHY_SZ])
{
	int ret;

	memset(c, 0, sizeof(*c));
	nv_abi_init(&c->abi, NULL);
	ret = open_client(c, o, why);
	ret = ret ?: open_logs(c, why);
	if (ret)
		ctxsw__close(c);
	return ret;
}

void ctxsw__close(struct ctxsw *c)
{
	while (c->cnt)
		log_close(&c->logs[--c->cnt]);
	rm__close(&c->rm);
}

void gpu_log__tick(struct gpu_log *l, uint64_t now)
{
	if (l->is_broken || now < l->sample_ns + SEC_NS)
		return;
	l->sample_ns = now;
	/* If it cannot be read, the old offset stays. */
	sample(l);
}

/* Frees the records that were read. The driver then resets its count of dropped records. */
static void update_get(struct gpu_log *l)
{
	struct get_params g = {.get = l->get};

	l->drop_cnt += __atomic_load_n(&header_of(l)->dropped, __ATOMIC_RELAXED);
	if (rm__control(l->rm, l->buffer, CMD_UPDATE_GET, &g, sizeof(g)))
		l->is_broken = true;
}

static void to_monotonic(const struct gpu_log *l, struct fecs_slice *slice)
{
	slice->start += (uint64_t)l->offset_ns;
	slice->end += (uint64_t)l->offset_ns;
}

bool gpu_log__next(struct gpu_log *l, struct fecs_slice *slice)
{
	const uint8_t *records = l->records.at;
	bool ended = false, was_read = false;
	uint32_t put;

	if (l->is_broken)
		return false;
	put = __atomic_load_n(&header_of(l)->put, __ATOMIC_ACQUIRE);
	if (put >= RECORD_CNT) {
		l->is_broken = true;
		return false;
	}
	if (l->get != put)
		l->fecs.latest = gpu_time(l, now_ns() + SEC_NS);
	while (l->get != put && !ended) {
		ended = fecs__record(&l->fecs, records + l->get * FECS_RECORD_SZ, slice);
		l->get = l->get + 1 == RECORD_CNT ? 0 : l->get + 1;
		was_read = true;
	}
	if (was_read && l->get == put)
		update_get(l);
	if (ended)
		to_monotonic(l, slice);
	return ended;
}

void gpu_log__flush(struct gpu_log *l)
{
	if (!l->is_broken)
		rm__control(l->rm, l->buffer, CMD_FLUSH, NULL, 0);
}

bool gpu_log__rest(struct gpu_log *l, uint64_t now, struct fecs_slice *slice)
{
	if (!fecs__rest(&l->fecs, gpu_time(l, now), slice))
		return false;
	to_monotonic(l, slice);
	return true;
}

uint64_t gpu_log__missed(const struct gpu_log *l)
{
	uint64_t numbers = l->fecs.missed_cnt;

	/* Sequence numbers include records dropped by the ring, but have 16 bits. */
	return (numbers > l->drop_cnt ? numbers : l->drop_cnt) + l->fecs.bad_cnt;
}
