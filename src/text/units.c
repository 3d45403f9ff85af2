/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strict parsers of option values. strtod() and similar functions skip blanks, accept signs,
 * hexadecimal and "inf", and depend on the locale: each of these would hide a typing error. */
#include "units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads digits up to the first other character. */
static int read_digits(const char **text, uint64_t *val)
{
	const char *s = *text;
	uint64_t x = 0;

	if (!is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(x, 10u, &x) ||
		    __builtin_add_overflow(x, (uint64_t)(*s - '0'), &x))
			return -ERANGE;
	}
	*text = s;
	*val = x;
	return 0;
}

int opt_read_u64(const char *text, uint64_t *val)
{
	int ret = read_digits(&text, val);

	if (ret == -ERANGE)
		return text[strspn(text, "0123456789")] ? -EINVAL : -ERANGE;
	return ret ? ret : *text ? -EINVAL : 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int find_unit(const struct unit *units, unsigned cnt, const char *name, uint64_t *factor)
{
	for (unsigned i = 0; i < cnt; i++) {
		if (!strcmp(units[i].name, name)) {
			*factor = units[i].factor;
			return 0;
		}
	}
	return -EINVAL;
}

int opt_read_time(const char *text, uint64_t unit_ns, uint64_t *ns)
{
	static const struct unit units[] = {
		{"us", 1000},	       {"ms", 1000000},		{"s", 1000000000},
		{"m", 60000000000ull}, {"h", 3600000000000ull},
	};
	uint64_t whole = 0, part = 0, scale = 1;
	bool has_part;
	int ret;

	/* Accept ".5", which is common; reject "5.", which is probably a mistake. */
	ret = *text == '.' ? 0 : read_digits(&text, &whole);
	if (ret)
		return ret;
	has_part = *text == '.';
	if (has_part && !is_digit(*++text))
		return -EINVAL;
	for (; has_part && is_digit(*text); text++) {
		/* Nine decimals; further digits are ignored. */
		if (scale < 1000000000) {
			part = part * 10 + (uint64_t)(*text - '0');
			scale *= 10;
		}
	}
	if (*text && find_unit(units, sizeof(units) / sizeof(units[0]), text, &unit_ns))
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit_ns, &whole))
		return -ERANGE;
	part = (uint64_t)((unsigned __int128)part * unit_ns / scale);
	return __builtin_add_overflow(whole, part, ns) ? -ERANGE : 0;
}

int opt_read_percent(const char *text, double *share)
{
	char number[24];
	size_t len = strlen(text);
	uint64_t val;
	int ret;

	if (len && text[len - 1] == '%')
		len--;
	/* Digits and a point only: the same format as a time without a unit. */
	if (!len || strspn(text, "0123456789.") != len || len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = 0;
	ret = opt_read_time(number, 1000000, &val);
	if (!ret)
		*share = val / 1e8;
	return ret;
}

int opt_read_moment(const char *text, uint64_t *ns)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	time_t seconds = end && !*end ? timegm(&tm) : -1;
	int ret;

	if (*text == '@') {
		ret = opt_read_time(text + 1, 1000000000, ns);
		return !ret && *ns > INT64_MAX / 2 ? -ERANGE : ret;
	}
	/* Until the year 2262 it fits. */
	if (seconds <= 0 || (uint64_t)seconds > INT64_MAX / 1000000000)
		return -EINVAL;
	*ns = (uint64_t)seconds * 1000000000;
	return 0;
}

int opt_read_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},	 {"B", 1},	  {"K", 1 << 10},   {"k", 1 << 10},
		{"KB", 1 << 10}, {"kB", 1 << 10}, {"KiB", 1 << 10}, {"M", 1 << 20},
		{"m", 1 << 20},	 {"MB", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30},
		{"g", 1 << 30},	 {"GB", 1 << 30}, {"GiB", 1 << 30},
	};
	uint64_t val, factor;
	int ret;

	ret = read_digits(&text, &val);
	if (ret)
		return ret;
	ret = find_unit(units, sizeof(units) / sizeof(units[0]), text, &factor);
	if (ret)
		return ret;
	return __builtin_mul_overflow(val, factor, bytes) ? -ERANGE : 0;
}

void opt_write_size(uint64_t bytes, char *buf, size_t buf_sz)
{
	static const struct unit units[] = {{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}};

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (bytes && bytes % units[i].factor == 0) {
			snprintf(buf, buf_sz, "%llu%s",
				 (unsigned long long)(bytes / units[i].factor), units[i].name);
			return;
		}
	}
	snprintf(buf, buf_sz, "%llu", (unsigned long long)bytes);
}
