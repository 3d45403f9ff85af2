/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sampled GPUs, and where records go. */
#ifndef PM_SAMPLER_H
#define PM_SAMPLER_H

#include "cupti_pm.h"

#include "ct_gpu.h"

#include <stdbool.h>

#define GPUS_MAX 64
/* Time between two readings: each costs CUPTI more than a millisecond, so they are rare at low
 * rates. Readings for which counter data has room: CUPTI drops samples when it is full. */
#define READ_NS	     50000000ull
#define READ_SLOW_NS 200000000ull
#define READ_SLOW_HZ 500
#define READS_KEPT   3
#define SAMPLES_MIN  8
/* Largest image that is accepted from CUPTI. */
#define IMAGE_MAX_SZ (1ull << 30)
/* The driver's buffer for one GPU: 26 KiB for each sample of a second (14 KiB were seen on an
 * H200); at least, at most. */
#define SAMPLE_SZ     26214ull
#define BUFFER_MIN_SZ (16ull << 20)
#define BUFFER_MAX_SZ (256ull << 20)

struct gpu {
	unsigned device; /* CUDA's index */
	unsigned index;	 /* as in nvidia-smi */
	char uuid[CT_GPU_UUID_SZ], pci[CT_GPU_PCI_SZ], name[CT_GPU_NAME_SZ];
	const char *chip;
	uint8_t *availability, *config;
	size_t config_size, data_size, sample_max; /* sample_max: of one reading */
	/* The accepted metrics and the values that they are; the host evaluates them. */
	const char *metrics[CT_PM_VALUE_CNT];
	enum ct_pm_value values[CT_PM_VALUE_CNT];
	unsigned metric_cnt;
	void *host, *object;  /* object NULL: not sampled */
	bool has_wrong_clock; /* this was reported */
	bool is_first;	      /* the next sample is the first since the start */
	uint64_t last_end;    /* of the newest sample, by the GPU's clock; 0: none yet */
	uint64_t last_read;   /* when that was read, or sampling started; 0: never sampled */
	unsigned failed_cnt;  /* readings in a row */
};

struct sampler {
	struct cupti_pm c;
	int sock;
	uint64_t interval_ns, read_ns;
	struct gpu gpus[GPUS_MAX];
	unsigned gpu_cnt, lost_cnt;
	uint8_t *data; /* counter data of one reading; all GPUs use it in turn */
	size_t data_size;
};

/* Calls a function of CUPTI: CALL(s, name, struct of its parameters). */
#define CALL(s, fn, params)                                                                        \
	((params)->size = (params)->size ?: sizeof(*(params)), (s)->c.fn(params))

/* main.c: sends the record; waits only a moment for the reader. */
void send_record(struct sampler *s, struct ct_gpu *rec);
/* Reports what is not sampled, as text; g NULL: of no particular GPU. */
__attribute__((format(printf, 3, 4))) void send_missing(struct sampler *s, const struct gpu *g,
							const char *fmt, ...);
struct ct_gpu record_of(const struct gpu *g, enum ct_gpu_op op);
uint64_t clock_ns(int clock);

/* find.c: opens libcupti. path: what the user named, or "". program: the traced command, or "". */
void *find_cupti(const char *path, const char *program);
/* gpu.c: finds the GPUs and starts to sample them. */
void open_gpus(struct sampler *s);
/* Returns the error of the step named *what. */
int start_gpu(struct sampler *s, struct gpu *g, const char **what);
void stop_gpu(struct sampler *s, struct gpu *g);
/* The cause of an error, and what to do. */
const char *error_text(const struct sampler *s, int ret);
/* sample.c: sends what was sampled since the last call. */
void read_gpu(struct sampler *s, struct gpu *g);
/* Counts the samples that are missing at the end. */
void count_end(struct sampler *s, struct gpu *g);

#endif /* PM_SAMPLER_H */
