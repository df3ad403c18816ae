/* Normalization: of layers, where each row has its own mean, and what that of batches takes from all rows. */

#include <math.h>
#include <string.h>

#include "kernels.h"

enum { ROWS, FEATURES, EPSILON_BITS }; /* of the array */

/* ---- Layers: x, gamma, beta -> the result, and mean and 1 / deviation of each row ---------------------- */

static dnnl_status_t forward(Work* work, int64_t part, float* own) {
  (void)own;
  const int64_t n = work->spec[FEATURES], from = part * work->each, rows = rows_of(work, work->spec[ROWS], part);
  const int32_t bits = (int32_t)work->spec[EPSILON_BITS];
  const float *gamma = work->buffers[1], *beta = work->buffers[2];
  float epsilon;
  memcpy(&epsilon, &bits, sizeof epsilon);
  for (int64_t row = from; row < from + rows; row++) {
    const float* x = work->buffers[0] + row * n;
    float *y = work->buffers[3] + row * n, *statistics = work->buffers[4] + row * 2;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += x[j];
    const float mean = sum / n;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < n; j++) squares += (x[j] - mean) * (x[j] - mean);
    const float scale = 1 / sqrtf(squares / n + epsilon);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * scale * gamma[j] + beta[j];
    statistics[0] = mean, statistics[1] = scale;
  }
  return dnnl_success;
}

dnnl_status_t layer_norm_forward(Work* work) {
  divide(work, work->spec[ROWS]);
  work->compute = forward;
  return dnnl_success;
}

/* Given: x, gamma, statistics and the gradient of the result; gradients of x, gamma and beta. */
static dnnl_status_t backward(Work* work, int64_t part, float* own) {
  (void)own;
  const int64_t n = work->spec[FEATURES], from = part * work->each, rows = rows_of(work, work->spec[ROWS], part);
  const float* gamma = work->buffers[1];
  float *of_gamma = work->shared + part * 2 * n, *of_beta = of_gamma + n;
  memset(of_gamma, 0, 2 * n * sizeof *of_gamma);
  for (int64_t row = from; row < from + rows; row++) {
    const float *x = work->buffers[0] + row * n, *statistics = work->buffers[2] + row * 2;
    const float *dy = work->buffers[3] + row * n, mean = statistics[0], scale = statistics[1];
    float *dx = work->buffers[4] + row * n, sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t j = 0; j < n; j++) {
      const float normal = (x[j] - mean) * scale, of_normal = dy[j] * gamma[j];
      of_gamma[j] += dy[j] * normal;
      of_beta[j] += dy[j];
      sum += of_normal;
      product += of_normal * normal;
    }
    sum /= n, product /= n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      dx[j] = scale * (dy[j] * gamma[j] - sum - (x[j] - mean) * scale * product);
  }
  return dnnl_success;
}

/* Add the two sums of each feature that the parts have, into two buffers. */
static dnnl_status_t add_parts(Work* work, int first) {
  const int64_t n = work->spec[FEATURES];
  add_all(work->parts - 1, 2 * n, work->shared + 2 * n, work->shared);
  memcpy(work->buffers[first], work->shared, n * sizeof(float));
  memcpy(work->buffers[first + 1], work->shared + n, n * sizeof(float));
  return dnnl_success;
}

static dnnl_status_t end_backward(Work* work) { return add_parts(work, 5); }

dnnl_status_t layer_norm_backward(Work* work) {
  divide(work, work->spec[ROWS]);
  work->compute = backward;
  work->finish = end_backward;
  work->shared = allocate(work->parts * 2 * work->spec[FEATURES] * sizeof(float));
  return work->shared ? dnnl_success : dnnl_out_of_memory;
}

/* ---- Batches ------------------------------------------------------------------------------------------

   Two sums over all rows, for each feature: of the numbers' distances from a value near their mean, and of the
   distances' squares; or of gradients, and of their products with the distances. Sums of BLOCK rows are added
   up, so that they are as exact as those of a few hundred numbers. Rows of few features are taken as if several
   of them were one. */

#define BLOCK 64
#define WIDE 128

static int64_t wide(const Work* work) { return work->spec[FEATURES] < WIDE ? 2 * WIDE : work->spec[FEATURES]; }

static void sum_block(int64_t rows, int64_t width, const float* x, const float* dy, const float* from, float* sums) {
  float *first = sums, *second = sums + width;
  memset(sums, 0, 2 * width * sizeof *sums);
  for (int64_t row = 0; row < rows; row++, x += width) {
    if (dy) {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) {
        first[j] += dy[j];
        second[j] += dy[j] * (x[j] - from[j]);
      }
      dy += width;
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) {
        const float distance = x[j] - from[j];
        first[j] += distance;
        second[j] += distance * distance;
      }
    }
  }
}

/* Sum up a part's rows to [2][features]. */
static void sum_rows(const Work* work, int64_t part, const float* dy, const float* center, float* own) {
  const int64_t n = work->spec[FEATURES], begin = part * work->each;
  int64_t rows = rows_of(work, work->spec[ROWS], part), fold = 1;
  while (n * fold < WIDE && rows % 2 == 0) rows /= 2, fold *= 2;
  const int64_t width = n * fold;
  float *from = own, *sums = own + width, *totals = own + 3 * width, *result = work->shared + part * 2 * n;
  for (int64_t i = 0; i < fold; i++) memcpy(from + i * n, center, n * sizeof *from);
  memset(totals, 0, 2 * width * sizeof *totals);
  memset(result, 0, 2 * n * sizeof *result);
  for (int64_t row = 0; row < rows; row += BLOCK) {
    const int64_t at = begin * n + row * width;
    sum_block(rows - row < BLOCK ? rows - row : BLOCK, width, work->buffers[0] + at, dy ? dy + at : NULL, from, sums);
    add_all(1, 2 * width, sums, totals);
  }
  add_all(fold, n, totals, result);
  add_all(fold, n, totals + width, result + n);
}

static dnnl_status_t plan_sums(Work* work) {
  divide(work, work->spec[ROWS]);
  work->own_bytes = 5 * wide(work) * sizeof(float);
  work->shared = allocate((work->parts * 2 + 1) * work->spec[FEATURES] * sizeof(float));
  return work->shared ? dnnl_success : dnnl_out_of_memory;
}

static float* near_mean(const Work* work) { return work->shared + work->parts * 2 * work->spec[FEATURES]; }

static dnnl_status_t sum_distances(Work* work, int64_t part, float* own) {
  sum_rows(work, part, NULL, near_mean(work), own);
  return dnnl_success;
}

static dnnl_status_t end_moments(Work* work) {
  const int64_t n = work->spec[FEATURES], rows = work->spec[ROWS];
  float *mean = work->buffers[1], *variance = work->buffers[2], *sums = work->shared;
  const float* center = near_mean(work);
  add_all(work->parts - 1, 2 * n, sums + 2 * n, sums);
  for (int64_t j = 0; j < n; j++) {
    const float distance = sums[j] / rows, found = sums[n + j] / rows - distance * distance;
    mean[j] = center[j] + distance;
    variance[j] = found < 0 ? 0 : found;
  }
  return dnnl_success;
}

/* x -> mean and variance of each feature */
dnnl_status_t moments(Work* work) {
  const int64_t n = work->spec[FEATURES], rows = work->spec[ROWS] < BLOCK ? work->spec[ROWS] : BLOCK;
  TRY(plan_sums(work));
  work->compute = sum_distances;
  work->finish = end_moments;
  float* center = near_mean(work);
  memset(center, 0, n * sizeof *center);
  add_all(rows, n, work->buffers[0], center);
  for (int64_t j = 0; j < n; j++) center[j] /= rows;
  return dnnl_success;
}

static dnnl_status_t sum_products(Work* work, int64_t part, float* own) {
  sum_rows(work, part, work->buffers[1], work->buffers[2], own);
  return dnnl_success;
}

static dnnl_status_t end_sums(Work* work) { return add_parts(work, 3); }

/* x, gradients and mean -> sums of gradients, and of their products with the distances from the mean */
dnnl_status_t weighted_sums(Work* work) {
  TRY(plan_sums(work));
  work->compute = sum_products;
  work->finish = end_sums;
  return dnnl_success;
}
