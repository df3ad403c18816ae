/* LSTM: the loop over time, which each thread runs by itself for some rows of the batch.

   Gates are in the order input, forget, output, candidate. */

#include <string.h>

#include "kernels.h"

enum { STEPS, LSTM_BATCH, UNITS, REVERSE, KEEP };
enum { KEEP_LAST, KEEP_STATES, KEEP_ALL }; /* forwards; backwards, KEEP_STATES says that states have gradients */

/* As rows of matrices: c = a b + beta c, or a b' if `transposed`. */
static dnnl_status_t multiply(int64_t rows, int64_t columns, int64_t inner, const float* a, const float* b,
                              bool transposed, float beta, float* c) {
  return dnnl_sgemm('N', transposed ? 'T' : 'N', rows, columns, inner, 1, a, inner, b,
                    transposed ? inner : columns, beta, c, columns);
}

static void open_gates(int64_t units, float* z, const float* before, float* c, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < 3 * units; j++) z[j] = 1 / (1 + expf(-z[j]));
#pragma omp simd
  for (int64_t j = 3 * units; j < 4 * units; j++) z[j] = tanhf(z[j]);
  const float *i = z, *f = z + units, *o = z + 2 * units, *g = z + 3 * units;
#pragma omp simd
  for (int64_t j = 0; j < units; j++) {
    c[j] = f[j] * before[j] + i[j] * g[j];
    h[j] = o[j] * tanhf(c[j]);
  }
}

static dnnl_status_t forward(Work* work, int64_t part, float* own) {
  const int64_t from = part * work->each, rows = rows_of(work, work->spec[LSTM_BATCH], part);
  const int64_t *spec = work->spec, units = spec[UNITS], all = spec[LSTM_BATCH], keep = spec[KEEP];
  float* const* given = work->buffers;
  const float *x = given[0], *h = given[1] + from * units, *c = given[2] + from * units, *recurrent = given[3];
  const float* bias = given[4];
  float *last_h = given[5] + from * units, *last_c = given[6] + from * units;
  for (int64_t n = 0; n < spec[STEPS]; n++) {
    const int64_t at = (spec[REVERSE] ? spec[STEPS] - 1 - n : n) * all + from;
    float* z = keep == KEEP_ALL ? given[9] + at * 4 * units : own;
    float* new_h = keep >= KEEP_STATES ? given[7] + at * units : last_h;
    float* new_c = keep == KEEP_ALL ? given[8] + at * units : last_c;
    for (int64_t row = 0; row < rows; row++) {
      const float* of_input = x + (at + row) * 4 * units;
#pragma omp simd
      for (int64_t j = 0; j < 4 * units; j++) z[row * 4 * units + j] = of_input[j] + bias[j];
    }
    TRY(multiply(rows, 4 * units, units, h, recurrent, false, 1, z));
    for (int64_t row = 0; row < rows; row++)
      open_gates(units, z + row * 4 * units, c + row * units, new_c + row * units, new_h + row * units);
    h = new_h, c = new_c;
  }
  if (h != last_h) memcpy(last_h, h, rows * units * sizeof *h);
  if (c != last_c) memcpy(last_c, c, rows * units * sizeof *c);
  return dnnl_success;
}

static void close_gates(int64_t units, const float* gates, const float* c, const float* before, const float* dh,
                        float* dc, float* dz) {
  const float *i = gates, *f = gates + units, *o = gates + 2 * units, *g = gates + 3 * units;
#pragma omp simd
  for (int64_t j = 0; j < units; j++) {
    const float tanh = tanhf(c[j]), of_c = dc[j] + dh[j] * o[j] * (1 - tanh * tanh);
    dz[j] = of_c * g[j] * i[j] * (1 - i[j]);
    dz[units + j] = of_c * before[j] * f[j] * (1 - f[j]);
    dz[2 * units + j] = dh[j] * tanh * o[j] * (1 - o[j]);
    dz[3 * units + j] = of_c * i[j] * (1 - g[j] * g[j]);
    dc[j] = of_c * f[j];
  }
}

static dnnl_status_t backward(Work* work, int64_t part, float* own) {
  (void)own;
  const int64_t from = part * work->each, rows = rows_of(work, work->spec[LSTM_BATCH], part);
  const int64_t *spec = work->spec, units = spec[UNITS], all = spec[LSTM_BATCH];
  const bool of_states = spec[KEEP] == KEEP_STATES;
  float* const* given = work->buffers;
  const float *gates = given[0], *carries = given[1], *first = given[2] + from * units, *recurrent = given[3];
  float* const* results = given + (of_states ? 7 : 6);
  float *dz = results[0], *dh = results[1] + from * units, *dc = results[2] + from * units;
  memcpy(dh, given[4] + from * units, rows * units * sizeof *dh);
  memcpy(dc, given[5] + from * units, rows * units * sizeof *dc);
  for (int64_t n = spec[STEPS] - 1; n >= 0; n--) {
    const int64_t step = spec[REVERSE] ? -1 : 1;
    const int64_t at = (spec[REVERSE] ? spec[STEPS] - 1 - n : n) * all + from;
    const float* before = n ? carries + (at - step * all) * units : first;
    if (of_states)
#pragma omp simd
      for (int64_t j = 0; j < rows * units; j++) dh[j] += given[6][at * units + j];
    for (int64_t row = 0; row < rows; row++)
      close_gates(units, gates + (at + row) * 4 * units, carries + (at + row) * units, before + row * units,
                  dh + row * units, dc + row * units, dz + (at + row) * 4 * units);
    TRY(multiply(rows, units, 4 * units, dz + at * 4 * units, recurrent, true, 0, dh));
  }
  return dnnl_success;
}

dnnl_status_t lstm_forward(Work* work) {
  divide(work, work->spec[LSTM_BATCH]);
  work->compute = forward;
  work->own_bytes = work->each * 4 * work->spec[UNITS] * sizeof(float);
  return dnnl_success;
}

dnnl_status_t lstm_backward(Work* work) {
  divide(work, work->spec[LSTM_BATCH]);
  work->compute = backward;
  return dnnl_success;
}
