# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Results of a benchmark, and whether they meet their limits."""

results = {"limits": [], "skipped": []}
trouble = []


def say(text=""):
    print(text, flush=True)


def skip(what, why):
    results["skipped"].append({"what": what, "why": str(why)})


def broken(what, why):
    trouble.append(f"{what}: {why}")


def limit(what, value, most, unit):
    results["limits"].append({"what": what, "value": round(value, 3), "limit": most, "unit": unit,
                              "met": value <= most})
