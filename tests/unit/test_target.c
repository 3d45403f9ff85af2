/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding libcuda files: lines of /proc/PID/maps, and files mapped by this process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/find/target.h"
#include "random.h"

static void knows_names(void **state)
{
	static const char *const yes[] = {
		"libcuda.so",	  "libcuda.so.1",   "libcuda.so.580.159.04",
		"libcuda.so.1.1", "libcuda.so.550",
	};
	static const char *const no[] = {
		"",
		"libcuda",
		"libcuda.so.",
		"libcuda.so.1.",
		"libcuda.so.1.bak",
		"libcurand.so.10",
		"libcudadebugger.so.1",
		"libcuda.so1",
		"xlibcuda.so",
		"libcuda.so..1",
		"libcuda.so.1 (deleted)",
		"libcuda.so.x",
		"LIBCUDA.SO",
		"libcuda.so.1\n",
	};

	for (unsigned i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(api_of_file(yes[i]));
	for (unsigned i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(api_of_file(no[i]));
}

static int parse(const char *text, struct map_line *out)
{
	static char line[16384];

	snprintf(line, sizeof(line), "%s", text);
	return target_parse_map_line(line, out);
}

static void parses_lines(void **state)
{
	struct map_line m;

	assert_int_equal(parse("7f0000001000-7f0000400000 r-xp 000de000 fe:1a 1048614    "
			       "/usr/lib/libcuda.so.580.159.04\n",
			       &m),
			 1);
	assert_true(m.start == 0x7f0000001000 && m.end == 0x7f0000400000);
	assert_int_equal(m.key.dev_major, 0xfe);
	assert_int_equal(m.key.dev_minor, 0x1a);
	assert_int_equal(m.key.ino, 1048614);
	assert_string_equal(m.path, "/usr/lib/libcuda.so.580.159.04");
	assert_false(m.deleted);

	assert_int_equal(parse("7f0000001000-7f0000400000 r-xp 0 00:2f 18446744073709551615 "
			       "/a b/x\\012y/libcuda.so.1 (deleted)\n",
			       &m),
			 1);
	assert_string_equal(m.path, "/a b/x\\012y/libcuda.so.1");
	assert_true(m.deleted);
	assert_true(m.key.ino == UINT64_MAX);

	/* A folder may have such a name. */
	assert_int_equal(parse("1000-2000 r-xp 0 fe:00 1 /x (deleted)/libcuda.so.1", &m), 1);
	assert_string_equal(m.path, "/x (deleted)/libcuda.so.1");
	assert_false(m.deleted);
	assert_int_equal(parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 "
			       "/libcuda.so",
			       &m),
			 1);
}

static void leaves_other_lines(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		"7f0000001000-7f0000400000 r--p 0 fe:00 10 /usr/lib/libcuda.so.1\n",
		"7f0000001000-7f0000400000 rw-p 0 fe:00 10 /usr/lib/libcuda.so.1\n",
		"7f0000001000-7f0000400000 r-xp 0 fe:00 10 /usr/lib/libcurand.so.10\n",
		"7f0000001000-7f0000400000 r-xp 0 00:00 0 \n",
		"7f0000001000-7f0000400000 r-xp 0 00:00 0 [vdso]\n",
		"7f0000001000-7f0000400000 r-xp 0 00:00 0 libcuda.so.1\n",
		"7f0000001000-7f0000400000 r-xp 0 fe:00 10 /libcuda.so.1/other\n",
		"7f0000001000-7f0000400000 r-xp 0 fe:00 10 /libcuda.so.1 (deleted) (deleted)\n",
		"7f0000001000-7f0000400000 r-xp 0 fe:00 10 //\n",
		"7f0000001000-7f0000400000 r-xp 0 fe:00 10",
		"7f0000001000-7f0000400000 r-xp 0 fe:00",
		"7f0000001000-7f0000400000 r-xp",
		"7f0000001000-",
		"-",
		"2000-1000 r-xp 0 fe:00 10 /libcuda.so.1",
		"1000-1000 r-xp 0 fe:00 10 /libcuda.so.1",
		"1000-2000 r-x 0 fe:00 10 /libcuda.so.1",
		"1000-2000 r-xps 0 fe:00 10 /libcuda.so.1",
		"1000-2000  0 fe:00 10 /libcuda.so.1",
		"-1000-2000 r-xp 0 fe:00 10 /libcuda.so.1",
		"0x1000-2000 r-xp 0 fe:00 10 /libcuda.so.1",
		" 1000-2000 r-xp 0 fe:00 10 /libcuda.so.1",
		"1000-2000 r-xp 0 1fe000000:00 10 /libcuda.so.1",
		"1000-2000 r-xp 0 fe:00 99999999999999999999 /libcuda.so.1",
		"11112222333344445-99999999999999999 r-xp 0 fe:00 1 /libcuda.so.1",
		"1000-2000 r-xp 0 fe:00 0x10 /libcuda.so.1",
		"1000-2000 r-xp 0 fe:00 -1 /libcuda.so.1",
	};
	struct map_line m;

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (parse(lines[i], &m))
			fail_msg("taken for libcuda: %s", lines[i]);
	}
}

static void takes_long_paths(void **state)
{
	char line[12000], *p = line;
	struct map_line m;

	p += sprintf(p, "1000-2000 r-xp 0 fe:00 10 ");
	for (unsigned i = 0; i < 1000; i++)
		p += sprintf(p, "/folder%02u", i % 100);
	sprintf(p, "/libcuda.so.1 (deleted)\n");
	assert_int_equal(target_parse_map_line(line, &m), 1);
	assert_int_equal(strlen(m.path), 9000 + strlen("/libcuda.so.1"));
	assert_true(m.deleted);
}

static void survives_random_lines(void **state)
{
	static const char good[] = "7f0000001000-7f0000400000 r-xp 000de000 fe:1a 1048614    "
				   "/usr/lib/libcuda.so.580.159.04 (deleted)\n";
	struct map_line m;
	/* Exactly as long as the text, so that ASan detects reads past it. */
	char *line = malloc(sizeof(good));

	for (unsigned round = 0; round < 50000; round++) {
		memcpy(line, good, sizeof(good));
		for (unsigned i = 0; i <= round % 5; i++) {
			uint64_t r = rnd();

			line[r % (sizeof(good) - 1)] = (char)(r >> 32);
		}
		if (target_parse_map_line(line, &m)) {
			assert_true(m.start < m.end);
			assert_true(m.path > line && m.path < line + sizeof(good));
			assert_int_equal(m.path[0], '/');
		}
	}
	free(line);
}

/* A file that this process maps executable, in a folder with an awkward name. */
struct mapped {
	char dir[64], sub[128], path[160];
	void *at;
};

static int map_file(void **state)
{
	static struct mapped m;
	int fd;

	memset(&m, 0, sizeof(m));
	strcpy(m.dir, "/tmp/cudatrace-test-XXXXXX");
	if (!mkdtemp(m.dir))
		return -1;
	snprintf(m.sub, sizeof(m.sub), "%s/a b\nc (deleted)", m.dir);
	snprintf(m.path, sizeof(m.path), "%s/libcuda.so.1", m.sub);
	mkdir(m.sub, 0700);
	fd = open(m.path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	if (fd < 0 || ftruncate(fd, 8192))
		return -1;
	m.at = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	if (m.at == MAP_FAILED)
		return -1;
	*state = &m;
	return 0;
}

static int unmap_file(void **state)
{
	struct mapped *m = *state;

	munmap(m->at, 8192);
	unlink(m->path);
	rmdir(m->sub);
	rmdir(m->dir);
	return 0;
}

static uint64_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

static void finds_mapped_file(void **state)
{
	struct mapped *m = *state;
	struct target_libs list = {0};

	assert_int_equal(target_libs__add_pid(&list, getpid()), 0);
	assert_int_equal(list.cnt, 1);
	assert_int_equal(list.libs[0].pid, getpid());
	assert_false(list.libs[0].deleted);
	assert_int_equal(list.libs[0].key.ino, inode_of(m->path));
	assert_int_equal(inode_of(list.libs[0].open_path), inode_of(m->path));
	assert_non_null(strstr(list.libs[0].path, "/a b\\012c (deleted)/libcuda.so.1"));
	/* Once, even if it is found several times. */
	assert_int_equal(target_libs__add_pid(&list, getpid()), 0);
	assert_true(target_libs__add_all(&list) >= 1);
	assert_int_equal(target_libs__add_path(&list, api_at(API_CUDA), m->path), 0);
	for (unsigned i = 1; i < list.cnt; i++)
		assert_true(list.libs[i].key.ino != list.libs[0].key.ino);
	target_libs__clear(&list);
	assert_int_equal(list.cnt, 0);
}

static void finds_deleted_file(void **state)
{
	struct mapped *m = *state;
	struct target_libs list = {0};
	uint64_t ino = inode_of(m->path);
	int other, rc;

	unlink(m->path);
	/* Another file at its path must not be taken for it. */
	other = open(m->path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	assert_true(other >= 0);
	close(other);
	rc = target_libs__add_pid(&list, getpid());
	/* Without the privilege for /proc/PID/map_files it is reported, not mistaken. */
	if (rc == -EACCES) {
		assert_int_equal(list.cnt, 0);
		return;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(list.cnt, 1);
	assert_true(list.libs[0].deleted);
	assert_int_equal(list.libs[0].key.ino, ino);
	assert_int_equal(inode_of(list.libs[0].open_path), ino);
	target_libs__clear(&list);
}

/* A file from the file system and then from a process: the process takes precedence. */
static void prefers_who_maps_it(void **state)
{
	struct mapped *m = *state;
	struct target_libs list = {0};

	assert_int_equal(target_libs__add_path(&list, api_at(API_CUDA), m->path), 0);
	assert_int_equal(list.cnt, 1);
	assert_int_equal(list.libs[0].pid, 0);
	assert_string_equal(list.libs[0].path, m->path);
	assert_int_equal(target_libs__add_pid(&list, getpid()), 0);
	assert_int_equal(list.cnt, 1);
	assert_int_equal(list.libs[0].pid, getpid());
	target_libs__clear(&list);
}

/* The number may be reused between reading a process's open files and opening one. */
static void opens_no_other_file(void **state)
{
	struct mapped *m = *state;
	struct target_libs list = {0};
	int fd = open(m->path, O_RDONLY | O_CLOEXEC), other, ends[2], opened;

	assert_true(fd >= 0);
	assert_int_equal(target_libs__add_open(&list, getpid(), fd, "libcuda.so.1"), 0);
	assert_int_equal(list.cnt, 1);
	opened = target_lib__open(&list.libs[0]);
	assert_true(opened >= 0);
	close(opened);
	other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(other >= 0 && dup2(other, fd) == fd);
	assert_int_equal(target_lib__open(&list.libs[0]), -ENOENT);
	assert_true(!pipe2(ends, O_CLOEXEC) && dup2(ends[0], fd) == fd);
	assert_int_equal(target_lib__open(&list.libs[0]), -ENOENT);
	close(fd);
	assert_int_equal(target_lib__open(&list.libs[0]), -ENOENT);
	close(other);
	close(ends[0]);
	close(ends[1]);
	target_libs__clear(&list);
}

static void looks_along_library_path(void **state)
{
	struct mapped *m = *state;
	struct target_libs list = {0};
	char text[512];
	bool found = false;

	snprintf(text, sizeof(text), "::/nowhere:%s;%s:", m->sub, m->sub);
	setenv("LD_LIBRARY_PATH", text, 1);
	assert_int_equal(target_libs__add_system(&list), 0);
	unsetenv("LD_LIBRARY_PATH");
	for (unsigned i = 0; i < list.cnt; i++) {
		assert_int_equal(list.libs[i].pid, 0);
		found |= list.libs[i].key.ino == inode_of(m->path);
		for (unsigned k = 0; k < i; k++)
			assert_true(memcmp(&list.libs[i].key, &list.libs[k].key,
					   sizeof(list.libs[i].key)) != 0);
	}
	assert_true(found);
	target_libs__clear(&list);
}

static void refuses_bad_files(void **state)
{
	struct target_libs list = {0};
	char fifo[] = "/tmp/cudatrace-fifo-XXXXXX";

	assert_int_equal(target_libs__add_file(&list, "/nonexistent/libcuda.so.1"), -ENOENT);
	assert_int_equal(target_libs__add_file(&list, "/dev/null"), -EINVAL);
	assert_int_equal(target_libs__add_file(&list, "/tmp"), -EISDIR);
	/* Must not wait for a writer. */
	close(mkstemp(fifo));
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(target_libs__add_file(&list, fifo), -EINVAL);
	unlink(fifo);
	assert_int_equal(list.cnt, 0);
	target_libs__clear(&list);
}

static void tells_process_facts(void **state)
{
	struct target_libs list = {0};
	siginfo_t si;
	pid_t pid;

	assert_true(target_exists(getpid()));
	assert_true(target_exists(1));
	assert_false(target_exists(0));
	assert_false(target_exists(-1));
	assert_int_equal(target_is_64bit(getpid()), 1);
	assert_int_equal(target_state(getpid()), 'R');
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(target_state(pid), 'Z');
	assert_true(target_is_64bit(pid) < 0);
	assert_int_equal(target_libs__add_pid(&list, pid), 0);
	assert_int_equal(list.cnt, 0);
	waitpid(pid, NULL, 0);
	assert_false(target_exists(pid));
	assert_int_equal(target_state(pid), 0);
	assert_int_equal(target_libs__add_pid(&list, pid), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_names),
		cmocka_unit_test(parses_lines),
		cmocka_unit_test(leaves_other_lines),
		cmocka_unit_test(takes_long_paths),
		cmocka_unit_test(survives_random_lines),
		cmocka_unit_test_setup_teardown(finds_mapped_file, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(finds_deleted_file, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(prefers_who_maps_it, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(opens_no_other_file, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(looks_along_library_path, map_file, unmap_file),
		cmocka_unit_test(refuses_bad_files),
		cmocka_unit_test(tells_process_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
