/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The outputs of a trace: opened from the options, or the default one; closed with the end line. */
#include "session.h"

#include "sink/delivery/workers.h"
#include "util/log.h"
#include "util/out.h"
#include "util/safe_open.h"
#include "util/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const sink_names[SINK_CNT] = {
#define SINK(id, name, help) [SINK_##id] = #name,
#include "sink/sinks.def"
#undef SINK
};

static int open_sink(struct session *s, enum sink_id kind, const char *path)
{
	struct sink *sink;

	if (s->sink_cnt == SESSION_MAX_SINKS) {
		err("more than %d outputs: leave some out", SESSION_MAX_SINKS);
		return -E2BIG;
	}
	sink = sink__open(kind, path, &s->t.info);
	if (!sink)
		return -EIO;
	s->files[s->sink_cnt] =
		(struct summary_file){.sink = sink_names[kind], .path = strdup(path)};
	s->sinks[s->sink_cnt++] = sink;
	if (s->o->max_file && sink__segment(sink, path, s->o->max_file, &s->t.info))
		return -EIO;
	sink__start_workers(sink,
			    s->o->format_threads >= 0
				    ? (unsigned)s->o->format_threads
				    : workers__size(sysconf(_SC_NPROCESSORS_ONLN)),
			    s->o->gpu_time);
	return 0;
}

static int open_default_sink(struct session *s)
{
	time_t now = time(NULL);
	char stamp[32], path[64];
	enum safe_open_why why;
	struct tm tm;

	if (!safe_mkdir("traces", &why)) {
		err("cannot create the directory traces: %s: choose a file with --jsonl",
		    why == SAFE_OPEN_ERRNO ? strerror(errno) : "it belongs to another user");
		return -EACCES;
	}
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &tm);
	snprintf(path, sizeof(path), "traces/trace_%s.jsonl", stamp);
	/* Another trace started in the same second. */
	if (!access(path, F_OK))
		snprintf(path, sizeof(path), "traces/trace_%s_%d.jsonl", stamp, getpid());
	info("writing %s", path);
	return open_sink(s, SINK_JSONL, path);
}

/*
 * Two programs that trace themselves at the same time may use the same file, as the default does.
 * The second one appends its process id to the name. The file stays locked until we end.
 */
static const char *collect_path(const struct session_opts *o, const char *path)
{
	static char other[4096];
	/* A FIFO would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	bool is_file;
	struct stat st;

	if (fd < 0)
		return path;
	is_file = !fstat(fd, &st) && S_ISREG(st.st_mode);
	if (is_file && !flock(fd, LOCK_EX | LOCK_NB))
		return path;
	close(fd);
	if (!is_file)
		return path;
	snprintf(other, sizeof(other), "%s.%d", path, o->collect_for);
	return other;
}

int session__open_outputs(struct session *s)
{
	const struct session_opts *o = s->o;
	int ret = 0;

	for (enum sink_id id = 0; id < SINK_CNT; id++) {
		for (unsigned i = 0; i < o->outputs[id].cnt && !ret; i++) {
			const char *path = o->outputs[id].v[i];

			ret = open_sink(s, id, o->collect ? collect_path(o, path) : path);
		}
	}
	if (!ret && !s->sink_cnt && !o->view)
		ret = open_default_sink(s);
	return ret;
}

bool session__shares_stdout(const struct session *s)
{
	struct stat out, st;

	if (fstat(STDOUT_FILENO, &out) || S_ISCHR(out.st_mode))
		return false;
	if (s->o->view && s->o->view->prints)
		return true;
	for (unsigned i = 0; i < s->sink_cnt; i++)
		if (!fstat(s->sinks[i]->out->fd, &st) && st.st_dev == out.st_dev &&
		    st.st_ino == out.st_ino)
			return true;
	return false;
}

static void fill_end(struct session *s)
{
	struct trace_end *end = &s->end;
	uint64_t wall;

	tracer__fill_end(&s->t, end);
	session__count_end(s);
	end->stats[CT_STAT_FILTERED] += s->outside_cnt;
	end->unseen = session__unseen(s);
	wall = end->end_ns - s->t.info.base_ns;
	end->cost_share = wall ? (double)end->cost_ns / wall : 0;
	/* The trace is shorter than a second. */
	if (wall && wall < 1000000000)
		end->max_thread_overhead *= 1e9 / wall;
}

bool session__close_outputs(struct session *s)
{
	struct trace_end sum = {0};
	struct summary_file *file;
	struct losses lost;
	struct stat st;
	bool ok = true;

	fill_end(s);
	lost = s->lost;
	losses__end(&lost, &s->end);
	s->end.lost = &lost;
	/* Files first: other outputs may wait for their readers. */
	for (unsigned i = 0; i < 2 * s->sink_cnt; i++) {
		struct sink **sink = &s->sinks[i % s->sink_cnt];

		if (!*sink || (i < s->sink_cnt && !(*sink)->out->is_file))
			continue;
		file = &s->files[sink - s->sinks];
		file->more_cnt = s->o->max_file ? segment_number((*sink)->out->name) : 0;
		if (sink__close_into(*sink, &s->end, &sum))
			ok = false;
		*sink = NULL;
		if (file->path && !stat(file->path, &st) && S_ISREG(st.st_mode))
			file->bytes = (uint64_t)st.st_size;
	}
	s->end.lost = NULL;
	s->file_cnt = s->sink_cnt;
	s->sink_cnt = 0;
	s->end.write_error = sum.write_error;
	s->end.lines_lost = sum.lines_lost;
	s->end.output_gone_cnt = sum.output_gone_cnt;
	return ok;
}
