/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "html.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <zlib.h>

#include "html_assets.h"
#include "report/section_page.h"
#include "text/json.h"

struct page {
	struct out *o;
	char nonce[33];
	const char *report;
	size_t report_len;
	struct out *meta, *rows;
	struct out *columns; /* deflated */
};

/* For use inside <script>: without '<' there is no </script> and no <!--. In JSON it occurs only in
 * strings, where an escape is equivalent. */
static void put_json(struct out *o, const char *s, size_t len)
{
	const char *end = s + len, *lt;

	while ((lt = memchr(s, '<', (size_t)(end - s)))) {
		out_bytes(o, s, (size_t)(lt - s));
		out_lit(o, "\\u003c");
		s = lt + 1;
	}
	out_bytes(o, s, (size_t)(end - s));
}

static void put_base64(struct out *o, const char *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = (const uint8_t *)data;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t x = (uint32_t)p[i] << 16;
		char *q = out_reserve(o, 4);

		x |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
		x |= left > 2 ? p[i + 2] : 0;
		q[0] = digits[x >> 18];
		q[1] = digits[x >> 12 & 63];
		q[2] = left > 1 ? digits[x >> 6 & 63] : '=';
		q[3] = left > 2 ? digits[x & 63] : '=';
		o->len += 4;
	}
}

/* Writes {{name}} of the page: a file of html/, or one of the five parts specific to a report. */
static void put_part(struct page *p, const char *name, size_t len)
{
	size_t size;
	const char *data = html_asset(name, len, &size);

	if (data)
		out_bytes(p->o, data, size);
	else if (len == 5 && !memcmp(name, "nonce", len))
		out_str(p->o, p->nonce);
	else if (len == 6 && !memcmp(name, "report", len))
		put_json(p->o, p->report, p->report_len);
	else if (len == 4 && !memcmp(name, "meta", len))
		put_json(p->o, p->meta->buf, p->meta->len);
	else if (len == 4 && !memcmp(name, "rows", len))
		put_json(p->o, p->rows->buf, p->rows->len);
	else if (len == 7 && !memcmp(name, "columns", len))
		put_base64(p->o, p->columns->buf, p->columns->len);
}

static void put_page(struct page *p)
{
	size_t size;
	const char *s = html_asset("page", 4, &size), *end = s + size, *open, *close;

	while ((open = memmem(s, (size_t)(end - s), "{{", 2)) &&
	       (close = memmem(open, (size_t)(end - open), "}}", 2))) {
		out_bytes(p->o, s, (size_t)(open - s));
		put_part(p, open + 2, (size_t)(close - open - 2));
		s = close + 2;
	}
	out_bytes(p->o, s, (size_t)(end - s));
	out__commit(p->o);
}

/* Only scripts and styles with this nonce run: code injected through a target's name lacks it. */
static int make_nonce(char nonce[33])
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int deflate_into(struct out *to, const struct out *from)
{
	uLongf size = compressBound(from->len);
	int ret = compress2((Bytef *)out_reserve(to, size), &size, (const Bytef *)from->buf,
			    from->len, 6);

	if (ret != Z_OK)
		return ret == Z_MEM_ERROR ? -ENOMEM : -EIO;
	to->len += size;
	return 0;
}

int html__write(struct out *o, const char *report, size_t len, struct html_events *events)
{
	struct page p = {.o = o, .report = report, .report_len = len};
	struct out *raw = out__memory();
	int err = -ENOMEM;
	struct json j;

	p.meta = out__memory();
	p.columns = out__memory();
	p.rows = out__memory();
	if (!raw || !p.meta || !p.columns || !p.rows)
		goto out;
	raw->is_checked = p.meta->is_checked = true;
	p.columns->is_checked = p.rows->is_checked = true;
	json__init(&j, p.rows);
	section_page(&j);
	err = make_nonce(p.nonce);
	if (!err)
		err = html_events__write(events, p.meta, raw);
	if (!err)
		err = deflate_into(p.columns, raw);
	if (raw->failed || p.meta->failed || p.columns->failed || p.rows->failed)
		err = -ENOMEM;
	if (!err)
		put_page(&p);
out:
	if (raw)
		out__close(raw);
	if (p.meta)
		out__close(p.meta);
	if (p.rows)
		out__close(p.rows);
	if (p.columns)
		out__close(p.columns);
	return err;
}
