/* What all kernels share.

   A kernel computes one operation of XLA's CPU programs, with oneDNN where that has it. It takes its sizes from
   one attribute, an array of int64, and is divided into parts, which XLA's own threads compute: each calls
   oneDNN for itself, with one thread. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oneapi/dnnl/dnnl.h"

#define MAX_BUFFERS 16
#define MAX_SPEC 20

typedef struct Work Work;

struct Work {
  int64_t spec[MAX_SPEC];
  float* buffers[MAX_BUFFERS]; /* operands, then results */
  int64_t threads;             /* how many there are */
  /* What the kernel's plan sets: */
  int64_t parts, each; /* each: rows of a part, if `divide` has set it */
  dnnl_status_t (*compute)(Work*, int64_t part, float* own);
  dnnl_status_t (*finish)(Work*); /* what one thread does when all parts are computed, or NULL */
  size_t own_bytes;               /* memory that each thread gets, as `own` */
  float* shared;                  /* from `allocate`; freed at the end */
  const void* made[2];
};

typedef dnnl_status_t Plan(Work*);

#define TRY(call)                            \
  do {                                       \
    dnnl_status_t status_ = (call);          \
    if (status_ != dnnl_success) return status_; \
  } while (0)

/* glibc has both for several numbers at once. */
#pragma omp declare simd notinbranch
extern float expf(float);
#pragma omp declare simd notinbranch
extern float tanhf(float);

void* allocate(size_t bytes);

/* Divide rows among the threads: `each` of them to a part, fewer to the last. */
void divide(Work* work, int64_t rows);

/* How many rows a part has, of as many as were divided. */
static inline int64_t rows_of(const Work* work, int64_t rows, int64_t part) {
  const int64_t left = rows - part * work->each;
  return left < work->each ? left : work->each;
}

/* Add to the first array what the others, which follow each other, have. */
void add_all(int64_t others, int64_t size, const float* of_others, float* first);

Plan convolution, product, lstm_forward, lstm_backward, attention_forward, attention_backward, layer_norm_forward,
    layer_norm_backward, moments, weighted_sums, gelu_forward, gelu_backward;
