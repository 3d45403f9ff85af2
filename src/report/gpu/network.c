/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Network ports of --gpu-stats: what they carried, and what went wrong on the way. */
#include "network.h"

#include "report/collect.h"
#include "report/section.h"

#include "ct_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS_MAX 1024

struct port {
	char device[64], link[16], state[32];
	uint32_t number;
	unsigned trace; /* that sampled it */
	uint64_t sample_cnt, first_ns, last_ns;
	uint64_t rate_milli; /* Gbit/s, in thousandths; 0: unknown */
	double bytes[2];     /* sent, received */
	uint64_t most[2];    /* bytes/s */
	uint64_t lost;
	uint64_t grown[CT_NET_VALUE_CNT]; /* of counters */
};

struct network {
	struct report *r;
	struct port *ports;
	unsigned cnt, cap;
	uint64_t rejected_cnt;
};

static struct port *port_of(struct network *n, const struct trace_event *ev)
{
	const struct event_network *x = &ev->network;
	struct port *p;

	for (unsigned i = 0; i < n->cnt; i++) {
		p = &n->ports[i];
		if (p->number == x->port && p->trace == ev->trace &&
		    !strcmp(p->device, x->device ?: ""))
			return p;
	}
	if (n->cnt == PORTS_MAX)
		return NULL;
	p = grow(n->ports, &n->cap, n->cnt + 1, sizeof(*p), MEMLIMIT_DEVICES);
	if (!p)
		return NULL;
	n->ports = p;
	p = &n->ports[n->cnt++];
	snprintf(p->device, sizeof(p->device), "%s", x->device ?: "");
	p->number = x->port;
	p->trace = ev->trace;
	p->first_ns = ev->start_ns;
	return p;
}

static void add_rate(struct port *p, bool received, struct opt_u64 rate, uint64_t ns)
{
	if (!rate.known)
		return;
	p->bytes[received] += (double)rate.v * ns / 1e9;
	if (rate.v > p->most[received])
		p->most[received] = rate.v;
}

uint64_t network_lost(const struct event_network *x)
{
	return x->packet_seq_err.v + x->ack_timeouts.v + x->adp_retrans.v + x->out_of_sequence.v;
}

static void network_event(void *a, const struct trace_event *ev)
{
	const struct event_network *x = &ev->network;
	struct network *n = a;
	struct port *p;
	uint64_t ns;

	if (ev->kind != EVENT_NETWORK)
		return;
	p = port_of(n, ev);
	if (!p) {
		n->rejected_cnt++;
		memlimit_reject(MEMLIMIT_DEVICES);
		return;
	}
	snprintf(p->link, sizeof(p->link), "%s", x->link ?: "");
	snprintf(p->state, sizeof(p->state), "%s", x->state ?: "");
	if (x->rate_gbit.known)
		p->rate_milli = x->rate_gbit.v;
	ns = p->sample_cnt++ && ev->start_ns > p->last_ns ? ev->start_ns - p->last_ns : 0;
	add_rate(p, false, x->tx, ns);
	add_rate(p, true, x->rx, ns);
	p->last_ns = ev->start_ns;
	p->lost += network_lost(x);
#define VALUE(ID, id, file, scale, form, unit, text)                                               \
	if (x->id.known)                                                                           \
		p->grown[CT_NET_##ID] += x->id.v;
#include "ct_net.def"
}

static uint64_t lost_by_all(const struct network *n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n->cnt; i++)
		sum += n->ports[i].lost;
	return sum;
}

static uint64_t congested(const struct port *p)
{
	return p->grown[CT_NET_MARKED] + p->grown[CT_NET_CNP_SENT] + p->grown[CT_NET_CNP_HANDLED];
}

static uint64_t link_errors(const struct port *p)
{
	return p->grown[CT_NET_RECOVERED] + p->grown[CT_NET_DOWNED] + p->grown[CT_NET_SYMBOLS] +
	       p->grown[CT_NET_RX_ERRORS] + p->grown[CT_NET_DISCARDS] + p->grown[CT_NET_NOT_READY];
}

/* Gbit/s of the link, as bytes per second. */
static double link_bytes(const struct port *p)
{
	return p->rate_milli * 125e3;
}

/* A saved trace may have any rates. */
static uint64_t whole(double bytes)
{
	return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

static const char *port_text(char buf[SECTION_BUF], const struct port *p)
{
	snprintf(buf, SECTION_BUF, "%s/%u %s", p->device, p->number, p->link);
	if (p->rate_milli)
		snprintf(buf + strlen(buf), SECTION_BUF - strlen(buf), ", %g Gbit/s",
			 p->rate_milli / 1e3);
	return buf;
}

#define SECTION_STATE struct network
#define SECTION_ROWS  "report/gpu/network.section"
#include "report/section_rows.h"

static void print_notes(const struct port *p, const struct term *term)
{
	char name[SECTION_BUF];

	snprintf(name, sizeof(name), "%s port %u", p->device, p->number);
	if (strcmp(p->state, "ACTIVE"))
		term_para(term, "%s is not active: %s", name, p->state);
	if (p->lost)
		term_para(term,
			  "%s: packets were lost on their way %s times and had to be sent again: "
			  "collectives wait for them. Look for congestion, or a bad cable, at its "
			  "switch.",
			  name, HUMAN_COUNT(p->lost));
	if (congested(p))
		term_para(term,
			  "%s: %s signs of congestion (marked packets, congestion notifications): "
			  "other traffic or too many senders on one link.",
			  name, HUMAN_COUNT(congested(p)));
	if (link_errors(p))
		term_para(term,
			  "%s: %s errors of its link: check cable, transceiver and switch port.",
			  name, HUMAN_COUNT(link_errors(p)));
}

static void network_print(const void *a, const struct term *term)
{
	const struct network *n = a;

	if (!n->cnt)
		return;
	term_section(term, "Network ports", "%u", n->cnt);
	section_print(n->r, &network_table, n, n, "ports", TABLE_ROWS, term);
	for (unsigned i = 0; i < n->cnt && i < TABLE_ROWS; i++)
		print_notes(&n->ports[i], term);
	if (n->cnt > TABLE_ROWS)
		term_para(term, "There are more; the JSON form has all.");
}

static void network_free(void *a)
{
	struct network *n = a;

	memlimit_free(n->ports);
	free(n);
}

const struct analysis_ops network_ops = {
	.name = "network",
	.size = STATE_SIZE(struct network),
	.event = network_event,
	.section = &network_table,
	.print = network_print,
	.free = network_free,
};
