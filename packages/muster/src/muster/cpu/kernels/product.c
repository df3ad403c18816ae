/* Products of matrices, of which one has many rows, such as those of a dense layer. */

#include "kernels.h"

enum { OVER_ROWS, BY_ROWS, BY_ROWS_TRANSPOSED }; /* left' right, which sums over rows; left right; left right' */
enum { KIND, ROWS, LEFT_COLUMNS, COLUMNS }; /* COLUMNS: of the result */

#define MOST_OF_SUMS (1 << 20) /* numbers that all parts' sums may take together, so that caches hold them */

static dnnl_status_t by_rows(Work* work, int64_t part, float* own) {
  (void)own;
  const int64_t from = part * work->each, rows = rows_of(work, work->spec[ROWS], part);
  const int64_t inner = work->spec[LEFT_COLUMNS], columns = work->spec[COLUMNS];
  const bool transposed = work->spec[KIND] == BY_ROWS_TRANSPOSED;
  return dnnl_sgemm('N', transposed ? 'T' : 'N', rows, columns, inner, 1, work->buffers[0] + from * inner, inner,
                    work->buffers[1], transposed ? inner : columns, 0, work->buffers[2] + from * columns, columns);
}

static dnnl_status_t over_rows(Work* work, int64_t part, float* own) {
  (void)own;
  const int64_t from = part * work->each, m = work->spec[LEFT_COLUMNS], n = work->spec[COLUMNS];
  float* result = part ? work->shared + (part - 1) * m * n : work->buffers[2];
  return dnnl_sgemm('T', 'N', m, n, rows_of(work, work->spec[ROWS], part), 1, work->buffers[0] + from * m, m,
                    work->buffers[1] + from * n, n, 0, result, n);
}

static dnnl_status_t add_sums(Work* work) {
  add_all(work->parts - 1, work->spec[LEFT_COLUMNS] * work->spec[COLUMNS], work->shared, work->buffers[2]);
  return dnnl_success;
}

dnnl_status_t product(Work* work) {
  const int64_t size = work->spec[LEFT_COLUMNS] * work->spec[COLUMNS];
  divide(work, work->spec[ROWS]);
  work->compute = by_rows;
  if (work->spec[KIND] != OVER_ROWS) return dnnl_success;
  if (work->parts * size > MOST_OF_SUMS) {
    work->threads = MOST_OF_SUMS / size > 1 ? MOST_OF_SUMS / size : 1;
    divide(work, work->spec[ROWS]);
  }
  work->compute = over_rows;
  work->finish = add_sums;
  if (work->parts == 1) return dnnl_success;
  work->shared = allocate((work->parts - 1) * size * sizeof(float));
  return work->shared ? dnnl_success : dnnl_out_of_memory;
}
