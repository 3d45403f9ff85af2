/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a process that the library is to enter: whether it may be entered, the functions of its
 * libc, the driver's dispatch pointers, and unused bytes behind a library's text and data. All
 * comes from /proc/PID and from the files that it maps, so mount namespaces and deleted files do
 * not matter.
 */
#include "late_target.h"

#include "late_filter.h"
#include "library.h"

#include "attach/find/elf_file.h"
#include "util/clock.h"
#include "util/task.h"

#include "ct_shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTED_MAX  4096
#define USE_UPROBES "; use --probe=uprobe"

const char late_hooked[] = "another cudatrace or another tool has hooked its libcuda; end that one "
			   "first, or use --probe=uprobe";

#ifdef __x86_64__
#include <cpuid.h>

#define MAPS_MAX (64u << 20)
#define PAGE	 4096ull
/* Functions are short: bytes beyond this belong to another one (inject/hook.c). */
#define CODE_MAX     256
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* For the files that a process maps, of which it chooses the number and the size. */
#define THREADS_CHECK_NS 2000000000ull
/* A signal frame is searched up to the end of a thread's stack, in so much of it, or where no stack
 * is known. Words are read at once. */
#define STACK_MAX    (8ull << 20)
#define NO_STACK_MAX (256ull << 10)
#define STACK_WORDS  (32u << 10)
#define FRAME_WORDS  25
/* Two words of a signal frame: uc_flags is at most this; cs, gs, fs and ss of interrupted code. */
#define UC_FLAGS_MAX  15
#define USER_SEGMENTS 0x002b000000000033

/* An ELF object that the process maps. */
struct object {
	struct elf_file *file; /* NULL: it cannot be read */
	char defect[128];
	uint64_t bias;
};

bool late_target__read(const struct late_target *t, uint64_t addr, void *to, size_t size)
{
	return pread(t->mem, to, size, (off_t)addr) == (ssize_t)size;
}

bool late_target__write(const struct late_target *t, uint64_t addr, const void *from, size_t size)
{
	return pwrite(t->mem, from, size, (off_t)addr) == (ssize_t)size;
}

uint64_t late_target__entry(const struct late_target *t, unsigned slot)
{
	return t->code + (uint64_t)(late_entries - late_code_begin) + slot * LATE_ENTRY_SZ;
}

/* Reads a whole file of /proc; adds a NUL. */
static char *read_all(pid_t pid, const char *name, size_t *size)
{
	char path[64], *text = NULL, *more;
	size_t len = 0, room = 0;
	ssize_t n = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && len < MAPS_MAX) {
		if (room - len < 4096) {
			room = 2 * room + 65536;
			more = realloc(text, room);
			if (!more)
				break;
			text = more;
		}
		n = read(fd, text + len, room - len - 1);
		len += n > 0 ? n : 0;
	}
	if (fd >= 0)
		close(fd);
	if (text)
		text[len] = '\0';
	*size = len;
	return text;
}

static bool read_maps(struct late_target *t)
{
	size_t size, lines = 0;
	char *at, *next;

	t->maps_text = read_all(t->pid, "maps", &size);
	for (at = t->maps_text; at && *at; at++)
		lines += *at == '\n';
	t->maps = calloc(lines + 1, sizeof(*t->maps));
	for (at = t->maps_text; t->maps && at && *at; at = next) {
		struct late_map *m = &t->maps[t->map_cnt];
		int path = 0;

		next = strchr(at, '\n');
		if (!next)
			break;
		*next++ = '\0';
		if (sscanf(at, "%lx-%lx %4s %lx %x:%x %lu %n", &m->start, &m->end, m->perms,
			   &m->off, &m->dev_major, &m->dev_minor, &m->ino, &path) < 7 ||
		    !path)
			continue;
		m->path = at + path;
		t->map_cnt++;
	}
	return t->map_cnt;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The first mapping of a file whose name begins with stem. "": of the executable. */
static const struct late_map *find_map(const struct late_target *t, const char *stem)
{
	char exe[4096] = "", path[32];

	if (!*stem) {
		snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
		if (readlink(path, exe, sizeof(exe) - 1) < 0)
			return NULL;
		for (unsigned i = 0; i < t->map_cnt; i++)
			if (!t->maps[i].off && !strcmp(t->maps[i].path, exe))
				return &t->maps[i];
		return NULL;
	}
	for (unsigned i = 0; i < t->map_cnt; i++)
		if (t->maps[i].path[0] == '/' && !t->maps[i].off &&
		    !strncmp(base_name(t->maps[i].path), stem, strlen(stem)))
			return &t->maps[i];
	return NULL;
}

static bool is_same_file(const struct late_map *a, const struct late_map *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static bool is_mapped(const struct late_target *t, uint64_t addr, size_t size, const char *perms)
{
	for (unsigned i = 0; i < t->map_cnt; i++) {
		const struct late_map *m = &t->maps[i];

		if (addr < m->start || addr >= m->end || size > m->end - addr || m->perms[3] != 'p')
			continue;
		for (const char *p = perms; *p; p++)
			if (!strchr(m->perms, *p))
				return false;
		return true;
	}
	return false;
}

static bool object_open(struct object *o, const struct late_target *t, const struct late_map *m)
{
	char path[96];

	o->file = m ? calloc(1, sizeof(*o->file)) : NULL;
	if (!o->file)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", t->pid, m->start, m->end);
	o->file->fd = open(path, O_RDONLY | O_CLOEXEC);
	o->file->program = true;
	o->file->err = o->defect;
	o->file->err_size = sizeof(o->defect);
	return o->file->fd >= 0 && !elf_file__read(o->file) &&
	       elf_file_bias(o->file, m->start, m->off, &o->bias);
}

static void object_close(struct object *o)
{
	if (o->file && o->file->fd >= 0)
		close(o->file->fd);
	elf_file__free(o->file);
}

/* 0: it does not define such a function. */
static uint64_t symbol(const struct object *o, const char *name)
{
	for (unsigned i = 0; i < o->file->sym_cnt; i++) {
		const Elf64_Sym *s = &o->file->syms[i];

		if (s->st_shndx && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		    s->st_name < o->file->str_sz && !strcmp(o->file->strings + s->st_name, name))
			return o->bias + s->st_value;
	}
	return 0;
}

static bool has_text(const struct object *o, uint64_t addr)
{
	return elf_file_segment(o->file, addr - o->bias, 1, PF_X);
}

/* The last segment with this flag. */
static const Elf64_Phdr *segment_of(const struct object *o, uint32_t flag)
{
	const Elf64_Phdr *p = NULL;

	for (unsigned i = 0; i < o->file->eh.e_phnum; i++)
		if (o->file->ph[i].p_type == PT_LOAD && o->file->ph[i].p_flags & flag)
			p = &o->file->ph[i];
	return p;
}

/* --- checks --- */

static const char *line_of(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? at + strlen(name) : "";
}

static bool wants_none(pid_t pid)
{
	size_t size, len = strlen(CT_ENV_NO_INJECT "=");
	char *text = read_all(pid, "environ", &size);
	bool is = false;

	for (char *at = text; at && at < text + size; at += strlen(at) + 1)
		if (!strncmp(at, CT_ENV_NO_INJECT "=", len))
			is = at[len] && strcmp(at + len, "0") != 0;
	free(text);
	return is;
}

/* Returns whether the process finds our file by this path. */
static bool sees(pid_t pid, const char *file)
{
	char path[4096];
	struct stat a, b;

	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, file);
	return !stat(file, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool has_xsave(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE;
}

/* Reading this file may block during execve() of the process, so only the helper reads it. */
static unsigned long long start_of(pid_t pid)
{
	unsigned long long start = 0;
	char text[1024];
	const char *at;

	at = task_read(pid, pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
	if (at)
		sscanf(at + 1,
		       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		       "%*d %llu",
		       &start);
	return start;
}

/* The id in the innermost PID namespace. */
static pid_t inner_id(const char *status, pid_t id)
{
	for (const char *ids = line_of(status, "\nNSpid:"); *ids == '\t';)
		id = strtol(ids + 1, (char **)&ids, 10);
	return id;
}

/* Reading all of them takes longer than a thread waits for late_target__may_go(). */
static bool list_threads(struct late_target *t)
{
	char path[32], text[4096];
	struct late_thread *grown;
	struct dirent *de;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	dir = t->inner_pid != t->pid ? opendir(path) : NULL;
	while (dir && (de = readdir(dir)) && t->thread_cnt < LISTED_MAX) {
		pid_t tid = atoi(de->d_name);

		if (!tid || !task_read(t->pid, tid, "status", text, sizeof(text)))
			continue;
		grown = realloc(t->threads, (t->thread_cnt + 1) * sizeof(*grown));
		if (!grown)
			break;
		t->threads = grown;
		grown[t->thread_cnt++] = (struct late_thread){inner_id(text, tid), tid};
	}
	if (dir)
		closedir(dir);
	return t->thread_cnt || t->inner_pid == t->pid;
}

bool late_target__is_out_of_files(const struct late_target *t)
{
	static const char name[] = "Max open files";
	char path[32], text[4096];
	unsigned long max, cnt = 0;
	struct dirent *de;
	DIR *dir;

	if (!task_read(t->pid, t->pid, "limits", text, sizeof(text)) ||
	    sscanf(line_of(text, name), "%lu", &max) != 1)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd", t->pid);
	dir = opendir(path);
	while (dir && (de = readdir(dir)))
		cnt += *de->d_name != '.' && strtoul(de->d_name, NULL, 10) < max;
	if (dir)
		closedir(dir);
	return cnt >= max;
}

bool late_target__may_go(const struct late_target *t, pid_t inner_tid)
{
	pid_t tid = t->inner_pid == t->pid ? inner_tid : 0;
	char text[4096];

	for (unsigned i = 0; i < t->thread_cnt && !tid; i++)
		if (t->threads[i].inner == inner_tid)
			tid = t->threads[i].outer;
	return tid > 0 && task_read(t->pid, tid, "status", text, sizeof(text)) &&
	       inner_id(text, tid) == inner_tid && late_filter__in(text) <= t->filters;
}

/* The frame that the kernel puts on the stack, by words: the return address, a struct ucontext. */
static bool is_signal_frame(const uint64_t *word)
{
	return word[0] && word[1] <= UC_FLAGS_MAX && !word[2] && word[24] == USER_SEGMENTS;
}

/* Threads that began after the maps were read have an unknown stack. */
static uint64_t stack_end(const struct late_target *t, uint64_t stack)
{
	uint64_t max = stack + NO_STACK_MAX;

	for (unsigned i = 0; i < t->map_cnt; i++)
		if (stack >= t->maps[i].start && stack < t->maps[i].end)
			max = t->maps[i].end - stack < STACK_MAX ? t->maps[i].end
								 : stack + STACK_MAX;
	return max;
}

bool late_target__in_handler(const struct late_target *t, uint64_t stack)
{
	static uint64_t words[STACK_WORDS];
	uint64_t end = stack_end(t, stack);

	for (uint64_t at = stack & ~7ull; at < end; at += sizeof(words) - FRAME_WORDS * 8) {
		size_t size = end - at < sizeof(words) ? end - at : sizeof(words);
		ssize_t n = pread(t->mem, words, size, (off_t)at);

		for (ssize_t i = 0; i + FRAME_WORDS <= n / 8; i++)
			if (is_signal_frame(words + i))
				return true;
		if (n < (ssize_t)sizeof(words))
			break;
	}
	return false;
}

static const char *check_status(struct late_target *t, unsigned filters)
{
	char text[4096];

	if (!task_read(t->pid, t->pid, "status", text, sizeof(text)))
		return "it has ended";
	t->start = start_of(t->pid);
	sscanf(line_of(text, "Name:\t"), "%15[^\n]", t->comm);
	t->inner_pid = inner_id(text, t->pid);
	if (*line_of(text, "\nState:\t") == 'Z')
		return atoi(line_of(text, "\nThreads:\t")) > 1
			       ? "its main thread has ended" USE_UPROBES
			       : "it has ended";
	if (strchr("Tt", *line_of(text, "\nState:\t")))
		return "it is stopped; continue it first (kill -CONT)";
	if (strstr(line_of(text, "\nx86_Thread_features:"), "shstk"))
		return "it has shadow stacks" USE_UPROBES;
	if (late_filter__count(t->pid, &t->filters) > filters)
		return "it has installed a system call filter (seccomp) meanwhile; try again";
	return NULL;
}

static const char *memfd_name(void)
{
	static char name[64];

	if (!name[0])
		library__name(LIBRARY_INJECT, name, sizeof(name));
	return name;
}

bool late_target__is_memfd(const struct late_target *t, const char *path)
{
	char name[LATE_PATH_SZ + 32];

	snprintf(name, sizeof(name), "/memfd:%s (deleted)", t->data.path);
	return t->data.path[0] != '/' && !strcmp(path, name);
}

/* Other copies of our library, and of the driver. */
static const char *check_libraries(const struct late_target *t, const char *library)
{
	const struct late_map *cuda = find_map(t, "libcuda.so");

	if (!cuda)
		return "it has not loaded libcuda, or has unloaded it; start it as a command (cudatrace -- "
		       "COMMAND), or use "
		       "--probe=uprobe";
	for (unsigned i = 0; i < t->map_cnt; i++) {
		const struct late_map *m = &t->maps[i];
		const char *name = base_name(m->path);

		if ((!strncmp(name, "libcudatrace-inject", 19) ||
		     !strncmp(name, "memfd:libcudatrace-inject", 25)) &&
		    strcmp(m->path, library) != 0 && !late_target__is_memfd(t, m->path))
			return "it has the library of another version of cudatrace; use that version, "
			       "or --probe=uprobe";
		if (!strncmp(name, "libcuda.so", 10) && !is_same_file(m, cuda))
			return "it has two libcudas" USE_UPROBES;
	}
	return NULL;
}

/* --- libc --- */

static const char *find_libc(struct late_target *t)
{
	static const struct {
		const char *name;
		size_t at;
	} functions[] = {
		{"pthread_create", offsetof(struct late_data, pthread_create)},
		{"pthread_attr_init", offsetof(struct late_data, attr_init)},
		{"pthread_attr_setstacksize", offsetof(struct late_data, attr_stack)},
		{"pthread_attr_setdetachstate", offsetof(struct late_data, attr_detach)},
		{"__errno_location", offsetof(struct late_data, errno_location)},
		{"__register_atfork", offsetof(struct late_data, register_atfork)},
		{"dlopen", offsetof(struct late_data, dlopen)},
		{"dlsym", offsetof(struct late_data, dlsym)},
	};
	struct object libc;
	bool all = object_open(&libc, t, find_map(t, "libc.so.6"));

	for (unsigned i = 0; all && i < COUNT(functions); i++) {
		uint64_t fn = symbol(&libc, functions[i].name);

		all = fn;
		memcpy((char *)&t->data + functions[i].at, &fn, sizeof(fn));
	}
	object_close(&libc);
	return all ? NULL
		   : "its C library is not glibc 2.34 or later, or it is linked statically" USE_UPROBES;
}

/* Sanitizers and others replace pthread_create(): a thread that they did not create crashes in
 * their code. */
static const char *check_threads(const struct late_target *t)
{
	const struct late_map *libc = find_map(t, "libc.so.6"), *last = libc;
	uint64_t begin = now_ns();
	bool is_replaced = false;

	for (unsigned i = 0; i < t->map_cnt && !is_replaced; i++) {
		const struct late_map *m = &t->maps[i];
		struct object o;

		/* Other files may be large, and of file systems that do not answer. */
		if (m->path[0] != '/' || m->perms[2] != 'x' || is_same_file(m, libc) ||
		    is_same_file(m, last))
			continue;
		if (now_ns() - begin > THREADS_CHECK_NS)
			return "checking all files that it maps takes too long" USE_UPROBES;
		last = m;
		is_replaced = object_open(&o, t, m) && symbol(&o, "pthread_create");
		object_close(&o);
	}
	return is_replaced ? "it replaces pthread_create(), as sanitizers do" USE_UPROBES : NULL;
}

/* --- room --- */

/* Objects that a program cannot unload; "": its executable, behind which the kernel begins a new
 * page for the heap. The loader allocates memory behind its own data. */
static const char *const code_in[] = {"libc.so.6", "", "ld-linux-x86-64.so.2"};
static const char *const state_in[] = {"libc.so.6", ""};

static size_t code_size(void)
{
	return late_code_end - late_code_begin;
}

/* Where the magic of the data is in code at this address. */
static uint64_t magic_at(uint64_t code)
{
	return code + (uint64_t)((const char *)&late_data - late_code_begin);
}

/* Behind a segment, the file's next bytes are mapped, or zeros. Another tool may have written
 * there. */
static bool is_unused(const struct late_target *t, const struct object *o, const Elf64_Phdr *p,
		      uint64_t at, size_t size)
{
	static const char zeros[PAGE];
	char there[PAGE], of_file[PAGE] = "";

	if (!late_target__read(t, at, there, size))
		return false;
	return !memcmp(there, zeros, size) ||
	       (pread(o->file->fd, of_file, size,
		      (off_t)(at - o->bias - p->p_vaddr + p->p_offset)) >= 0 &&
		!memcmp(there, of_file, size));
}

/* What an earlier attach has written there. */
static bool has_magic(const struct late_target *t, uint64_t at)
{
	char magic[sizeof(LATE_MAGIC)];

	return late_target__read(t, at, magic, sizeof(magic)) &&
	       !memcmp(magic, LATE_MAGIC, sizeof(magic));
}

/* Returns the unused rest of the last page of an object's text or data, if size bytes fit; 0: none.
 * magic: where an earlier attach has its magic. */
static uint64_t room_in(const struct late_target *t, const char *name, uint32_t flag, size_t size,
			uint64_t magic)
{
	struct object o;
	const Elf64_Phdr *p = object_open(&o, t, find_map(t, name)) ? segment_of(&o, flag) : NULL;
	uint64_t at = p ? (o.bias + p->p_vaddr + p->p_memsz + 63) & ~63ull : 0;

	if (!(at % PAGE) || PAGE - at % PAGE < size ||
	    !is_mapped(t, at, size, flag == PF_X ? "rx" : "rw") ||
	    (!has_magic(t, at + magic) && !is_unused(t, &o, p, at, size)))
		at = 0;
	object_close(&o);
	return at;
}

/* Finds the code of an earlier attach, or room for it. */
static const char *find_room(struct late_target *t, const char *library)
{
	struct late_data there;

	for (unsigned i = 0; i < COUNT(code_in); i++) {
		uint64_t at = room_in(t, code_in[i], PF_X, code_size(), magic_at(0));

		if (!at)
			continue;
		if (!t->code)
			t->code = at;
		if (!has_magic(t, magic_at(at)) ||
		    !late_target__read(t, magic_at(at), &there, sizeof(there)))
			continue;
		t->code = at;
		t->has_code = true;
		t->data.state = there.state;
		/* Another mount namespace may be ours now. */
		if (!strncmp(there.path, library, sizeof(there.path)) ||
		    !strncmp(there.path, memfd_name(), sizeof(there.path)))
			memcpy(t->data.path, there.path, sizeof(there.path));
		memcpy(t->data.slots, there.slots, sizeof(there.slots));
		return NULL;
	}
	for (unsigned i = 0; i < COUNT(state_in) && !t->data.state; i++)
		t->data.state = room_in(t, state_in[i], PF_W, sizeof(struct late_state), 0);
	return t->code && t->data.state
		       ? NULL
		       : "there is no room for code behind its C library and executable" USE_UPROBES;
}

/* --- the driver's dispatch pointers --- */

static const char *const calls[] = {
	"cuLaunchKernel",	"cuLaunchKernelEx",
	"cuGraphLaunch",	"cuStreamSynchronize",
	"cuMemcpyAsync",	"cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuEventRecord",
	"cuEventQuery",		"cuCtxSynchronize",
	"cuLaunchKernel_ptsz",	"cuLaunchKernelEx_ptsz",
	"cuGraphLaunch_ptsz",	"cuStreamSynchronize_ptsz",
	"cuMemcpyHtoD_v2",	"cuMemcpyDtoH_v2",
	"cuMemAlloc_v2",	"cuCtxGetCurrent",
};

/* As slot_of() of inject/hook.c, which explains it. */
static uint64_t slot_of(const struct late_target *t, uint64_t fn)
{
	uint8_t code[CODE_MAX], *p;
	int32_t rel;

	if (!late_target__read(t, fn, code, sizeof(code)))
		return 0;
	p = memmem(code, sizeof(code), "\x00\xba\x1c\x32", 4);
	for (p = p ? p + 4 : code + sizeof(code); p + 6 <= code + sizeof(code); p++) {
		uint64_t slot;

		if (p[0] != 0xff || (p[1] != 0x15 && p[1] != 0x25))
			continue;
		memcpy(&rel, p + 2, sizeof(rel));
		slot = fn + (uint64_t)(p - code) + 6 + (int64_t)rel;
		if (slot % 8 == 0 && is_mapped(t, slot, 8, "rw"))
			return slot;
	}
	return 0;
}

/* cnt: slots found so far. Returns NULL, or why. */
static const char *find_slot(struct late_target *t, const struct object *cuda, const char *name,
			     unsigned *cnt)
{
	uint64_t fn = symbol(cuda, name), at = fn ? slot_of(t, fn) : 0, real;

	for (unsigned i = 0; i < *cnt; i++)
		if (t->data.slots[i].at == at)
			return NULL;
	if (!at || !late_target__read(t, at, &real, sizeof(real)))
		return NULL;
	/* An earlier tracer was killed before a thread came. */
	if (t->has_code && t->data.slots[*cnt].at == at && real == late_target__entry(t, *cnt))
		real = t->data.slots[*cnt].real;
	if (!has_text(cuda, real))
		return late_hooked;
	t->data.slots[*cnt].at = at;
	t->data.slots[*cnt].real = real;
	++*cnt;
	return NULL;
}

static const char *find_slots(struct late_target *t)
{
	struct object cuda;
	unsigned cnt = 0;
	const char *why = object_open(&cuda, t, find_map(t, "libcuda.so"))
				  ? NULL
				  : "its libcuda cannot be read" USE_UPROBES;

	for (unsigned i = 0; !why && i < COUNT(calls) && cnt < LATE_SLOTS; i++)
		why = find_slot(t, &cuda, calls[i], &cnt);
	object_close(&cuda);
	return why ?: cnt ? NULL : "its libcuda has no dispatch pointers" USE_UPROBES;
}

static const char *check_code(const struct late_target *t)
{
	char there[PAGE];
	size_t data = magic_at(0);

	if (!t->has_code)
		return NULL;
	if (late_target__read(t, t->code, there, code_size()) &&
	    !memcmp(there, late_code_begin, data) &&
	    !memcmp(there + data, &t->data, sizeof(t->data)) &&
	    !memcmp(there + data + sizeof(t->data), late_code_begin + data + sizeof(t->data),
		    code_size() - data - sizeof(t->data)))
		return NULL;
	return "another version of cudatrace has entered it before; use that version, or --probe=uprobe";
}

const char *late_target__look(struct late_target *t, pid_t pid, const char *library,
			      unsigned filters)
{
	char path[32];
	const char *why;

	*t = (struct late_target){.pid = pid, .mem = -1, .data.magic = LATE_MAGIC};
	if (!has_xsave() || strlen(library) >= sizeof(t->data.path))
		return "this processor has no XSAVE" USE_UPROBES;
	strcpy(t->data.path, sees(pid, library) ? library : memfd_name());
	why = check_status(t, filters);
	if (why)
		return why;
	if (!list_threads(t))
		return "its threads cannot be listed; try again";
	if (wants_none(pid))
		return "its environment has " CT_ENV_NO_INJECT USE_UPROBES;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	t->mem = open(path, O_RDWR | O_CLOEXEC);
	if (t->mem < 0 || !read_maps(t))
		return "its memory cannot be written; run as root, or use --probe=uprobe";
	why = find_libc(t);
	why = why ?: find_room(t, library);
	why = why ?: check_libraries(t, library);
	why = why ?: find_slots(t);
	why = why ?: check_code(t);
	return why ?: check_threads(t);
}

void late_target__close(struct late_target *t)
{
	if (t->mem >= 0)
		close(t->mem);
	free(t->maps);
	free(t->maps_text);
	t->maps = NULL;
	free(t->threads);
	t->maps_text = NULL;
	t->threads = NULL;
	t->mem = -1;
}
#else
const char *late_target__look(struct late_target *t, pid_t pid, const char *library,
			      unsigned filters)
{
	*t = (struct late_target){.pid = pid, .mem = -1};
	return "only programs on x86-64 can be entered" USE_UPROBES;
}

void late_target__close(struct late_target *t)
{
}
#endif
