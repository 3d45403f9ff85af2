#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Checks the #include lines of src/ and bpf/ against the table in docs/ARCHITECTURE.md of what each folder may use.
# Prints FILE:LINE: the error. Exit status 1 on errors.
set -u
cd "$(dirname "$0")/.." || exit 1

shopt -s globstar nullglob
awk '
# A row of the table: | `src/NAME/` | its content | folders, and libbpf |; "all" means those of all rows.
FILENAME ~ /\.md$/ {
	if (split($0, col, / *\| */) < 5 || col[2] !~ /^`[a-z\/]*\/`$/) next
	name = col[2]
	if (name ~ /^`(src|inject|nvml|pm|nvtx|tools)\/`$/) next # not of src/, or no layer
	gsub(/`|src\/|\/`/, "", name)
	sub(/^nothing$/, "", col[4])
	gsub(/,/, "", col[4])
	may[name] = name " " col[4]
	if (name != "bpf" && name != "vmlinux") all = all " " name
	next
}

!in_code++ {
	for (name in may) if (may[name] ~ / all$/) may[name] = name all " libbpf"
	may["main"] = "main" all
	# The folder that a rule below is about.
	if (!("record" in may)) { print "docs/ARCHITECTURE.md has no src/record/; tools/check-layers.sh has a rule for it"; bad = 1 }
	if (!("bpf" in may)) { print "docs/ARCHITECTURE.md has no table of folders"; exit bad = 1 }
}

# The row for a folder: its own, or that of the nearest parent with a row.
function row(dir) {
	while (!(dir in may) && sub(/\/[^\/]*$/, "", dir)) continue
	return dir
}

# The folder of an included FILE: "decode" for "decode/cuda.h" and for "cuda.h" in src/decode/.
function owner(name, file,	dir) {
	if (name ~ /^ct_[a-z_]*\.(h|def)$/) return "include"
	if (name ~ /\.skel\.h$/) return "libbpf" # made by its tool
	if (name ~ /^vmlinux\.h$/) return "vmlinux"
	if (name == "version.h" || name == "api_includes.h") return layer # made by the Makefile
	if (name ~ /^(bpf|libbpf)\//) return "libbpf"
	if (name ~ /\.\.\//) return "a path with \"..\""
	dir = name
	if (sub(/\/[^\/]*$/, "", dir) && row(dir) in may) return row(dir)
	dir = file
	sub(/[^\/]*$/, "", dir)
	if ((getline junk < (dir name)) < 0) return ""
	close(dir name)
	return layer
}

FNR == 1 {
	layer = FILENAME
	if (sub(/^src\//, "", layer)) layer = sub(/\/[^\/]*$/, "", layer) ? row(layer) : "main"
	else layer = "bpf"
	if (!(layer in may)) {
		printf "%s:1: src/%s/ is not in the table of docs/ARCHITECTURE.md\n", FILENAME, layer
		bad = 1
		nextfile
	}
}

match($0, /^[ \t]*#[ \t]*include[ \t]*["<]/) {
	quoted = substr($0, RLENGTH, 1) == "\""
	name = substr($0, RLENGTH + 1)
	sub(/[">].*/, "", name)
	own = quoted || name ~ /^(bpf|linux\/bpf)/ ? owner(name, FILENAME) : ""
	if (own == "") {
		if (quoted) {
			printf "%s:%d: \"%s\" is found nowhere\n", FILENAME, FNR, name
			bad = 1
		}
		next
	}
	ok = 0
	n = split(may[layer], list, " ")
	for (i = 1; i <= n; i++)
		if (list[i] == own || index(own, list[i] "/") == 1) ok = 1
	if (!ok) {
		printf "%s:%d: %s/ may not use %s (\"%s\"); it may use: %s\n", FILENAME, FNR, layer, own, name, may[layer]
		bad = 1
	}
}

# record/ uses libbpf only for its ring buffer.
layer == "record" && match($0, /(bpf_object|bpf_program|bpf_link|bpf_map__)[a-z_]*\(/) {
	printf "%s:%d: record/ may use libbpf for the ring only, not %s)\n", FILENAME, FNR, substr($0, RSTART, RLENGTH)
	bad = 1
}
# Only util/reader*.c, and attach/probe/mmap_lock.c, changed_code.c, daemon/gpu_core_request.c and inject/late*.c in a process that they end, may read files that a target can block: those that wait
# for its memory, its execve(), or a server of its own. The reader opens these paths for others: root, map_files, exe and fd.
FNR == 1 { file_reads = 0 }
/util\/reader\.h"/ { file_reads = 1 }
FILENAME !~ /^src\/(util\/reader|attach\/probe\/(mmap_lock|changed_code)|daemon\/gpu_core_request|inject\/late)/ && (/process_vm_readv/ ||
	/"\/proc\/%[.0-9]*[du]\/(task\/%[.0-9]*[dus]\/)?(mem|cmdline|environ|maps|smaps|auxv|stat|syscall|wchan|stack|io|personality|timens_offsets|ns|cwd|mountinfo|mounts)["\/]/ ||
	/"\/proc\/%[.0-9]*[du]\/(task\/%[.0-9]*[dus]\/)?(root|map_files|exe|fd\/)/ && (!file_reads || /[^_](open|fopen|stat|readlink|access|opendir)\(/) ||
	/"(mem|cmdline|environ|maps|smaps|auxv|stat|syscall|wchan|timens_offsets|exe|cwd|ns\/[a-z_]*)"/ && /(proc|open|file|link)[a-z_]*\(/ && !/reader__/) {
	printf "%s:%d: a target can make this wait forever; use util/reader.h\n", FILENAME, FNR
	bad = 1
}
END { exit bad }
' docs/ARCHITECTURE.md src/**/*.[ch] src/**/*.cc src/**/*.def bpf/*.[ch]
