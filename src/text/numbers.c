/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "numbers.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *human_count(char cell[CELL_SZ], uint64_t n)
{
	char digits[CELL_SZ];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i, o = 0;

	/* CELL_SZ fits 18 digits with commas: no count is larger, unless there is a bug */
	if (len > 17) {
		snprintf(cell, CELL_SZ, "%.3e", (double)n);
		return cell;
	}
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			cell[o++] = ',';
		cell[o++] = digits[i];
	}
	cell[o] = '\0';
	return cell;
}

/* Three significant digits. */
static void put_unit(char cell[CELL_SZ], double x, const char *unit)
{
	int decimals = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;

	snprintf(cell, CELL_SZ, "%.*f %s", decimals, x, unit);
}

char *human_bytes(char cell[CELL_SZ], uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double x = bytes;
	unsigned i = 0;

	if (bytes < 1024) {
		snprintf(cell, CELL_SZ, "%u B", (unsigned)bytes);
		return cell;
	}
	for (x /= 1024; x >= 1023.5 && i < 5; i++)
		x /= 1024;
	put_unit(cell, x, units[i]);
	return cell;
}

char *human_time(char cell[CELL_SZ], double ns)
{
	if (ns < 999.5)
		snprintf(cell, CELL_SZ, "%.0f ns", ns);
	else if (ns < 999.5e3)
		put_unit(cell, ns / 1e3, "µs");
	else if (ns < 999.5e6)
		put_unit(cell, ns / 1e6, "ms");
	else
		put_unit(cell, ns / 1e9, "s");
	return cell;
}

char *human_joules(char cell[CELL_SZ], double joules)
{
	static const char *const units[] = {"µJ", "mJ", "J", "kJ", "MJ"};
	double x = joules * 1e6;
	unsigned i = 0;

	for (; x >= 999.5 && i < 4; i++)
		x /= 1000;
	put_unit(cell, x, units[i]);
	return cell;
}

char *human_share(char cell[CELL_SZ], double part, double whole)
{
	cell[0] = '\0';
	if (whole > 0)
		snprintf(cell, CELL_SZ, "%.1f %%", 100 * part / whole);
	return cell;
}

char *human_rate(char cell[CELL_SZ], double bytes, double ns)
{
	cell[0] = '\0';
	if (ns <= 0)
		return cell;
	if (bytes / ns < 0.9995)
		put_unit(cell, 1e3 * bytes / ns, "MB/s");
	else
		put_unit(cell, bytes / ns, "GB/s");
	return cell;
}

char *human_nouns(char text[NOUNS_SZ], uint64_t n, const char *word)
{
	size_t len = strlen(word);
	bool es = len && (word[len - 1] == 's' || word[len - 1] == 'h');

	snprintf(text, NOUNS_SZ, "%s %s%s", HUMAN_COUNT(n), word, es ? plural_es(n) : plural(n));
	return text;
}

void human_processes(char *text, size_t size, uint64_t processes, uint64_t ranks)
{
	char all[CELL_SZ], of[CELL_SZ];

	human_count(all, processes);
	human_count(of, ranks);
	if (ranks && ranks < processes)
		snprintf(text, size, "%s processes, %s of them rank%s", all, of, plural(ranks));
	else
		snprintf(text, size, "%s process%s", all, plural_es(processes));
}
