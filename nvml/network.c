/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * InfiniBand and RoCE ports: growth of the kernel's counters in /sys/class/infiniband. Reading one
 * may ask the adapter's firmware, hence the limit of five times per second.
 */
#include "sampler.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT	    "/sys/class/infiniband"
#define PORTS_MAX   64
#define INTERVAL_NS 200000000ull

static const struct {
	const char *file;
	unsigned scale;
} counters[CT_NET_VALUE_CNT] = {
#define VALUE(ID, id, file, scale, form, unit, text) [CT_NET_##ID] = {file, scale},
#include "ct_net.def"
};

struct port {
	char device[64];
	unsigned number;
	uint64_t last[CT_NET_VALUE_CNT], known;
	uint64_t at_ns; /* 0: not read yet */
};

static struct port ports[PORTS_MAX];
static unsigned port_cnt;

/* Returns false if it cannot be read. The text has no line end. */
static bool read_file(const struct port *p, const char *file, char *text, size_t size)
{
	char path[256];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), ROOT "/%s/ports/%u/%s", p->device, p->number, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return true;
}

static void add_ports(const char *device)
{
	char path[256];
	struct dirent *e;
	DIR *dir;

	if (strlen(device) >= sizeof(ports->device))
		return;
	snprintf(path, sizeof(path), ROOT "/%s/ports", device);
	dir = opendir(path);
	while (dir && (e = readdir(dir)) && port_cnt < PORTS_MAX) {
		unsigned number = strtoul(e->d_name, NULL, 10);

		if (!number)
			continue;
		strcpy(ports[port_cnt].device, device);
		ports[port_cnt++].number = number;
	}
	if (dir)
		closedir(dir);
}

void find_ports(void)
{
	DIR *dir = opendir(ROOT);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			add_ports(e->d_name);
	if (dir)
		closedir(dir);
}

/* "400 Gb/sec (4X NDR)", "4: ACTIVE" */
static void describe(struct port *p, struct ct_gpu *rec)
{
	char text[96];
	const char *state;

	memcpy(rec->name, p->device, sizeof(p->device));
	rec->gpu = p->number;
	if (read_file(p, "link_layer", text, sizeof(text)))
		snprintf(rec->pci, sizeof(rec->pci), "%.31s", text);
	if (read_file(p, "state", text, sizeof(text))) {
		state = strstr(text, ": ");
		snprintf(rec->uuid, sizeof(rec->uuid), "%.90s", state ? state + 2 : text);
	}
	if (read_file(p, "rate", text, sizeof(text)) && strstr(text, "Gb/sec"))
		put(rec, (enum ct_gpu_value)CT_NET_RATE, (uint64_t)(strtod(text, NULL) * 1000));
}

/* A counter that became smaller was reset: its growth is not known. */
static void read_counter(struct port *p, struct ct_gpu *rec, unsigned i, uint64_t now)
{
	uint64_t value, grown, bit = 1ull << i;
	char text[32], *end;

	if (!read_file(p, counters[i].file, text, sizeof(text)))
		goto unknown;
	value = strtoull(text, &end, 10);
	if (end == text || *end)
		goto unknown;
	grown = value - p->last[i];
	if (p->known & bit && value >= p->last[i] && now > p->at_ns) {
		grown *= counters[i].scale;
		if (i == CT_NET_TX || i == CT_NET_RX)
			grown = (uint64_t)(grown / ((now - p->at_ns) / 1e9));
		put(rec, (enum ct_gpu_value)i, grown);
	}
	p->last[i] = value;
	p->known |= bit;
	return;
unknown:
	p->known &= ~bit;
}

static void sample_port(struct sampler *s, struct port *p)
{
	struct ct_gpu rec = record_of(NULL, CT_GPU_PORT);
	uint64_t now = clock_ns();

	if (p->at_ns && now - p->at_ns < INTERVAL_NS)
		return;
	describe(p, &rec);
	for (unsigned i = 0; i < CT_NET_VALUE_CNT; i++)
		if (*counters[i].file)
			read_counter(p, &rec, i, now);
	p->at_ns = now;
	send_record(s, &rec);
}

void sample_ports(struct sampler *s)
{
	for (unsigned i = 0; i < port_cnt; i++)
		sample_port(s, &ports[i]);
}
