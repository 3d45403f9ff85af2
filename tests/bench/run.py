# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make bench: what tracing costs, next to an empty pair of probes and to other tools, in one run.

usage: run.py BUILD_FOLDER        (as root; after tests/bench/run.sh built what it needs)

Timings of a shared machine are noisy: every variant is measured in turn, several rounds, and medians and
their ratios are printed. Writes BUILD_FOLDER/bench/results.json.
"""
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROUNDS = 5
CALLS = 150000
# bpftrace prints a line for each call: fewer, so that it drops none.
CALLS_SLOW = 15000

BPFTRACE = """
BEGIN { printf("ready\\n"); }
uprobe:LIB:SYM { @t[tid] = nsecs; @a0[tid] = arg0; @a1[tid] = arg1; @a2[tid] = arg2; @a3[tid] = arg3;
  @a4[tid] = arg4; @a5[tid] = arg5; }
uretprobe:LIB:SYM /@t[tid]/ {
  printf("{\\"ts\\":%lld,\\"name\\":\\"SYM\\",\\"pid\\":%d,\\"tid\\":%d,\\"comm\\":\\"%s\\",\\"dur\\":%lld,\\"result\\":%d,\\"args\\":[\\"%p\\",%d,%d,%d,%d,%d]}\\n",
         @t[tid], pid, tid, comm, nsecs - @t[tid], retval, @a0[tid], @a1[tid], @a2[tid], @a3[tid], @a4[tid], @a5[tid]);
  delete(@t[tid]); delete(@a0[tid]); delete(@a1[tid]); delete(@a2[tid]); delete(@a3[tid]); delete(@a4[tid]);
  delete(@a5[tid]); }
"""


class Bench:
    def __init__(self, folder):
        self.o = os.path.abspath(folder)
        self.tmp = os.path.join(self.o, "bench", "tmp")
        os.makedirs(self.tmp, exist_ok=True)
        self.ct = os.path.join(self.o, "cudatrace")
        self.empty = os.path.join(self.o, "bench", "empty")
        self.many = os.path.join(self.o, "cases", "many")
        self.results = {"kernel": os.uname().release, "cpus": os.cpu_count()}
        self.skipped = []

    def lib(self, which="fake"):
        return os.path.join(self.o, which, "libcuda.so.1")

    def env(self, which="fake"):
        return dict(os.environ, LD_LIBRARY_PATH=os.path.join(self.o, which), FAKE_NO_SEM="1")

    def command(self, symbol, calls, *more):
        return [self.many, symbol, str(calls), *map(str, more)]

    def ns(self, text):
        return float(re.search(r"ns_per_call ([\d.]+)", text).group(1))

    def bare(self, symbol, which="fake", calls=CALLS):
        out = subprocess.run(self.command(symbol, calls), env=self.env(which), check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        return self.ns(out)

    def with_empty(self, symbol, mech, which="fake", at_start=False):
        args = [self.empty, self.lib(which), symbol, mech] + (["+0"] if at_start else [])
        with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            if p.stdout.readline() != "ready\n":
                raise RuntimeError("empty probes do not attach by " + mech)
            ns = self.bare(symbol, which)
            p.stdin.close()
            p.wait()
        return ns

    def with_cudatrace(self, symbol, mech, out, which="fake"):
        args = [self.ct, "-q", "--mechanism=" + mech, "-e", symbol, "--jsonl", out, "--"]
        text = subprocess.run(args + self.command(symbol, CALLS), env=self.env(which), check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        return self.ns(text)

    def with_bpftrace(self, symbol):
        script = os.path.join(self.tmp, "script.bt")
        with open(script, "w", encoding="utf-8") as f:
            f.write(BPFTRACE.replace("LIB", self.lib()).replace("SYM", symbol))
        out = os.path.join(self.tmp, "bpftrace.out")
        with open(out, "w", encoding="utf-8") as f:
            p = subprocess.Popen(["bpftrace", script], stdout=f, stderr=subprocess.DEVNULL)
        for _ in range(300):
            if "ready" in open(out, encoding="utf-8", errors="replace").read(4096):
                break
            if p.poll() is not None:
                raise RuntimeError("bpftrace ended at once")
            time.sleep(0.1)
        ns = self.bare(symbol, calls=CALLS_SLOW)
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        p.wait()
        return ns

    def with_perf(self, symbol):
        def perf(*args):
            return subprocess.run(["perf", *args], check=True, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=self.env()).stdout
        perf("probe", "-q", "-x", self.lib(), symbol)
        try:
            perf("probe", "-q", "-x", self.lib(), symbol + "%return")
            text = perf("record", "-q", "-o", os.path.join(self.tmp, "perf.data"), "-e", "probe_libcuda:*", "--",
                        *self.command(symbol, CALLS))
        finally:
            perf("probe", "-q", "-d", "probe_libcuda:*")
        return self.ns(text)

    # --- what is measured ---

    def cost(self, symbol):
        """Added nanoseconds per call, each variant in turn; returns {variant: median}."""
        jsonl = os.path.join(self.tmp, "trace.jsonl")
        variants = {
            "bare": lambda: self.bare(symbol),
            "empty pair, session": lambda: self.with_empty(symbol, "session"),
            "empty pair, multi": lambda: self.with_empty(symbol, "multi"),
            "cudatrace, session": lambda: self.with_cudatrace(symbol, "session", jsonl),
            "cudatrace, session, /dev/null": lambda: self.with_cudatrace(symbol, "session", "/dev/null"),
            "cudatrace, multi": lambda: self.with_cudatrace(symbol, "multi", jsonl),
            "cudatrace, perf": lambda: self.with_cudatrace(symbol, "perf", jsonl),
            "perf record": lambda: self.with_perf(symbol),
            "bpftrace": lambda: self.with_bpftrace(symbol),
        }
        got = {name: [] for name in variants}
        for _ in range(ROUNDS):
            for name, run in variants.items():
                if got[name] is None:
                    continue
                try:
                    got[name].append(run())
                except (OSError, RuntimeError, subprocess.CalledProcessError) as e:
                    got[name] = None
                    self.skip(f"{name} ({symbol})", e)
        bare = statistics.median(got["bare"])
        return {name: statistics.median(v) - (bare if name != "bare" else 0) for name, v in got.items() if v}

    def skip(self, name, why):
        if isinstance(why, subprocess.CalledProcessError):
            why = " ".join((why.stdout or "").split())[:200] or f"exit status {why.returncode}"
        self.skipped.append(f"{name}: {why}")

    def position(self):
        """A driver of 470 to 555: the probe on the first instruction, and ten bytes on."""
        got = {"+0": [], "+10": []}
        bare = []
        for _ in range(ROUNDS):
            bare.append(self.bare("cuLaunchKernel", "fake535"))
            got["+0"].append(self.with_empty("cuLaunchKernel", "multi", "fake535", True))
            got["+10"].append(self.with_empty("cuLaunchKernel", "multi", "fake535"))
        return {k: statistics.median(v) - statistics.median(bare) for k, v in got.items()}

    def throughput(self, rate, seconds=10):
        """rate calls a second from two threads. The tracer's peak memory and its own CPU time."""
        jsonl = os.path.join(self.tmp, "rate.jsonl")
        calls = rate * seconds // 2
        p = subprocess.Popen([self.ct, "-q", "-e", "!other", "--jsonl", jsonl, "--", *self.command("cuLaunchKernel", calls, 2,
                              2_000_000_000 // rate)], env=self.env(), stdout=subprocess.PIPE, text=True)
        ticks = rss = 0
        while p.poll() is None:
            try:
                with open(f"/proc/{p.pid}/stat", encoding="utf-8") as f:
                    fields = f.read().rpartition(")")[2].split()
                with open(f"/proc/{p.pid}/status", encoding="utf-8") as f:
                    rss = max(rss, int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)))
                ticks = int(fields[11]) + int(fields[12])
            except (OSError, AttributeError, IndexError):
                pass
            time.sleep(0.2)
        wall = float(re.search(r"wall_ns (\d+)", p.stdout.read()).group(1)) / 1e9
        with open(jsonl, "rb") as f:
            f.seek(-4096, os.SEEK_END)
            end = json.loads(f.read().splitlines()[-1])
        size = os.path.getsize(jsonl)
        os.unlink(jsonl)
        return {"asked_per_s": rate, "made_per_s": round(2 * calls / wall), "calls": end["calls"],
                "dropped": sum(end["drops"].values()), "rss_mb": round(rss / 1024, 1),
                "tracer_cpu": round(ticks / os.sysconf("SC_CLK_TCK") / wall, 2), "file_mb": size // 1000000,
                "seconds": round(wall, 1)}

    def attach(self):
        got = []
        for _ in range(3):
            err = subprocess.run([self.ct, "-v", "--all", "-e", "all,!other", "--jsonl", "/dev/null", "--no-summary",
                                  "--libcuda", self.lib(), "--", "true"], text=True, stderr=subprocess.PIPE,
                                 env=self.env(), check=True).stderr
            m = re.search(r"(\d+) of \d+ functions attached in ([\d.]+) ms", err)
            got.append((float(m.group(2)), int(m.group(1))))
        return {"functions": got[0][1], "ms": statistics.median(g[0] for g in got)}

    def idle(self):
        with subprocess.Popen([self.ct, "-q", "-e", "!other", "--duration", "4", "--jsonl", "/dev/null"],
                              env=self.env()) as p:
            time.sleep(3)
            with open(f"/proc/{p.pid}/status", encoding="utf-8") as f:
                rss = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
            with open(f"/proc/{p.pid}/stat", encoding="utf-8") as f:
                fields = f.read().rpartition(")")[2].split()
        return {"rss_mb": round(rss / 1024, 1), "cpu_s_in_3_s": (int(fields[11]) + int(fields[12])) / 100}

    def writer(self):
        out = subprocess.run([os.path.join(self.o, "bench", "writer"), "1000000"], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
        return out.strip()


def limit(name, ok):
    print(f"  {'PASS' if ok else 'FAIL'}  {name}")
    return bool(ok)


def main():
    b = Bench(sys.argv[1])
    r = b.results
    limits = r["limits"] = {}
    started = time.monotonic()
    print(f"kernel {r['kernel']}, {r['cpus']} CPUs; medians of {ROUNDS} rounds, variants in turn\n")

    r["cost_ns"] = {}
    for symbol in ("cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize"):
        got = r["cost_ns"][symbol] = b.cost(symbol)
        floor = got["empty pair, session"]
        print(f"{symbol}: nanoseconds added to a call")
        for name, ns in got.items():
            ratio = "" if name == "bare" else f"  {ns / floor:6.2f} x the empty pair (session)"
            print(f"  {ns:9.0f}  {name}{ratio}")
        ours = got["cudatrace, session"]
        limits[f"{symbol}: at most 1.5 x an empty pair"] = limit(
            f"at most 1.5 x an empty pair: {ours / floor:.2f}", ours <= 1.5 * floor)
        if "bpftrace" in got:
            limits[f"{symbol}: at most half of bpftrace"] = limit(
                f"at most half of bpftrace: {ours / got['bpftrace']:.2f}", ours <= got["bpftrace"] / 2)
        print()

    r["position_ns"] = pos = b.position()
    print("drivers 470 to 555, empty pair: nanoseconds added to a call")
    print(f"  {pos['+0']:9.0f}  on the first instruction\n  {pos['+10']:9.0f}  behind it (+10)"
          f"  {pos['+10'] / pos['+0']:.2f} x\n")

    r["throughput"] = []
    print("two threads, JSON lines to a file")
    for rate in (100_000, 500_000, 800_000):
        t = b.throughput(rate)
        r["throughput"].append(t)
        print(f"  {t['made_per_s']:>8} calls/s for {t['seconds']} s: {t['dropped']} dropped, "
              f"{t['rss_mb']} MB, {t['tracer_cpu']} CPUs, {t['file_mb']} MB written")
    t = r["throughput"][1]
    limits["500,000 calls/s, no drop"] = limit(
        f"500,000 calls a second without a drop (made {t['made_per_s']})", not t["dropped"])
    limits["under 200 MB"] = limit(f"under 200 MB: {t['rss_mb']}", t["rss_mb"] < 200)

    r["attach"] = a = b.attach()
    print(f"\nattach to {a['functions']} functions: {a['ms']:.1f} ms")
    limits["attach in under 100 ms"] = limit(f"under 100 ms: {a['ms']:.1f}", a["ms"] < 100)

    r["idle"] = i = b.idle()
    print(f"\nidle, system-wide: {i['rss_mb']} MB, {i['cpu_s_in_3_s']} s of CPU in the first 3 s")
    r["writer"] = b.writer()
    print("\nJSONL writer, from memory:\n  " + r["writer"].replace("\n", "\n  "))

    b.skip("uftrace", "sees functions built with -pg or called through the PLT; these are found by dlsym()")
    r["skipped"] = b.skipped
    for s in b.skipped:
        print("\nskipped " + s)
    with open(os.path.join(b.o, "bench", "results.json"), "w", encoding="utf-8") as f:
        json.dump(r, f, indent=1)
    shutil.rmtree(b.tmp)
    print(f"\nmeasured in {time.monotonic() - started:.0f} s")
    print(f"\n{sum(limits.values())} of {len(limits)} limits met; numbers in {sys.argv[1]}/bench/results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
