/* Operations of XLA's CPU programs that oneDNN computes: handlers for XLA's foreign function interface.

   Each takes its sizes from one attribute, an array of int64 whose first entries say what it computes. What
   oneDNN generates for such an array is kept for the life of the process. _kernels.py compiles this file. */

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oneapi/dnnl/dnnl.h"
#include "xla/ffi/api/c_api.h"

#define MAX_BUFFERS 16

/* ---- The thread that computes --------------------------------------------------------------------------

   OpenMP keeps a team of threads for each thread that asks it for one, and XLA calls from any of its own: on
   64 cores there would be 4,096. So one thread computes what all of them ask for, with one team. */

typedef struct Work {
  dnnl_status_t (*compute)(struct Work*);
  const int64_t* spec;
  float* buffers[MAX_BUFFERS]; /* operands, then results */
  dnnl_status_t status;
  bool done;
  struct Work* next;
} Work;

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static Work *first, **last = &first;
static bool started;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void* compute_all(void* unused) {
  pthread_mutex_lock(&queue_lock);
  for (;;) {
    while (!first) pthread_cond_wait(&asked, &queue_lock);
    Work* work = first;
    if (!(first = work->next)) last = &first;
    pthread_mutex_unlock(&queue_lock);
    dnnl_status_t status = work->compute(work);
    pthread_mutex_lock(&queue_lock);
    work->status = status;
    work->done = true;
    pthread_cond_broadcast(&answered);
  }
  return unused;
}

static void after_fork(void) { /* a child has no other threads than the one that forked */
  pthread_mutex_init(&queue_lock, NULL);
  pthread_cond_init(&asked, NULL);
  pthread_cond_init(&answered, NULL);
  first = NULL, last = &first, started = false;
}

static dnnl_status_t compute(Work* work) {
  pthread_mutex_lock(&queue_lock);
  if (!started) {
    static bool before;
    pthread_t thread;
    if (!before) pthread_atfork(NULL, NULL, after_fork);
    before = true;
    started = !pthread_create(&thread, NULL, compute_all, NULL) && !pthread_detach(thread);
  }
  if (!started) {
    pthread_mutex_unlock(&queue_lock);
    return dnnl_out_of_memory;
  }
  work->next = NULL, work->done = false;
  *last = work, last = &work->next;
  pthread_cond_signal(&asked);
  while (!work->done) pthread_cond_wait(&answered, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
  return work->status;
}

/* ---- What follows runs on that thread ---------------------------------------------------------------- */

#define TRY(call)                                        \
  do {                                                   \
    dnnl_status_t status_ = (call);                      \
    if (status_ != dnnl_success) return status_;         \
  } while (0)

/* glibc has both for several numbers at once. */
#pragma omp declare simd notinbranch
extern float expf(float);
#pragma omp declare simd notinbranch
extern float tanhf(float);

static float* scratch(size_t bytes) {
  static char* memory;
  static size_t size;
  if (bytes > size) {
    free(memory);
    size = (bytes + 4095) / 4096 * 4096;
    memory = aligned_alloc(4096, size);
    if (!memory) size = 0;
  }
  return (float*)memory;
}

static dnnl_status_t begin(void) {
  if (!engine) TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
  if (!stream) TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  return dnnl_success;
}

/* ---- Convolutions ------------------------------------------------------------------------------------ */

enum { FORWARD, INPUT_GRADIENT, KERNEL_GRADIENT };
enum { SOURCE, KERNEL, RESULT };
enum { /* of the array */
  KIND, BATCH, HEIGHT, WIDTH, FEATURES, OUT_HEIGHT, OUT_WIDTH, OUT_FEATURES, ROWS, COLUMNS, STRIDE_DOWN, STRIDE_ACROSS,
  DILATION_DOWN, DILATION_ACROSS, TOP, LEFT, BOTTOM, RIGHT, CONVOLUTION_SPEC
};

typedef struct Convolution {
  int64_t spec[CONVOLUTION_SPEC];
  dnnl_primitive_t primitive, to_blocks, from_blocks; /* the latter two of the kernel, or NULL */
  dnnl_memory_desc_t given[3], blocked;
  const_dnnl_memory_desc_t scratchpad;
  size_t blocked_bytes, scratchpad_bytes;
  struct Convolution* next;
} Convolution;

static Convolution* convolutions;

static dnnl_status_t channels_last(dnnl_memory_desc_t* desc, const int64_t* spec, int height, int features) {
  dnnl_dims_t dims = {spec[BATCH], spec[features], spec[height], spec[height + 1]};
  return dnnl_memory_desc_create_with_tag(desc, 4, dims, dnnl_f32, dnnl_acdb);
}

static dnnl_status_t prepare(Convolution* made, const int64_t* spec) {
  dnnl_dims_t kernel = {spec[OUT_FEATURES], spec[FEATURES], spec[ROWS], spec[COLUMNS]};
  dnnl_dims_t strides = {spec[STRIDE_DOWN], spec[STRIDE_ACROSS]};
  dnnl_dims_t dilation = {spec[DILATION_DOWN] - 1, spec[DILATION_ACROSS] - 1};
  dnnl_dims_t before = {spec[TOP], spec[LEFT]}, after = {spec[BOTTOM], spec[RIGHT]};
  dnnl_memory_desc_t any, *given = made->given;
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t forward, chosen, reorder;
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;

  memcpy(made->spec, spec, sizeof made->spec);
  TRY(channels_last(&given[SOURCE], spec, HEIGHT, FEATURES));
  TRY(channels_last(&given[RESULT], spec, OUT_HEIGHT, OUT_FEATURES));
  TRY(dnnl_memory_desc_create_with_tag(&given[KERNEL], 4, kernel, dnnl_f32, dnnl_cdba));
  TRY(dnnl_memory_desc_create_with_tag(&any, 4, kernel, dnnl_f32, dnnl_format_tag_any));
  TRY(dnnl_primitive_attr_create(&attributes));
  TRY(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
  TRY(dnnl_convolution_forward_primitive_desc_create(&forward, engine, dnnl_forward_training, direct, given[SOURCE],
                                                     any, NULL, given[RESULT], strides, dilation, before, after,
                                                     attributes));
  chosen = forward;
  if (spec[KIND] == INPUT_GRADIENT)
    TRY(dnnl_convolution_backward_data_primitive_desc_create(&chosen, engine, direct, given[SOURCE], any,
                                                             given[RESULT], strides, dilation, before, after,
                                                             forward, attributes));
  if (spec[KIND] == KERNEL_GRADIENT)
    TRY(dnnl_convolution_backward_weights_primitive_desc_create(&chosen, engine, direct, given[SOURCE], any, NULL,
                                                                given[RESULT], strides, dilation, before, after,
                                                                forward, attributes));
  TRY(dnnl_primitive_create(&made->primitive, chosen));
  const bool is_result = spec[KIND] == KERNEL_GRADIENT;
  TRY(dnnl_memory_desc_clone(&made->blocked, dnnl_primitive_desc_query_md(
      chosen, is_result ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0)));
  made->scratchpad = dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
  made->scratchpad_bytes = dnnl_memory_desc_get_size(made->scratchpad);
  if (dnnl_memory_desc_equal(made->blocked, given[KERNEL])) return dnnl_success;
  made->blocked_bytes = (dnnl_memory_desc_get_size(made->blocked) + 63) / 64 * 64;
  TRY(dnnl_reorder_primitive_desc_create(&reorder, is_result ? made->blocked : given[KERNEL], engine,
                                         is_result ? given[KERNEL] : made->blocked, engine, NULL));
  return dnnl_primitive_create(is_result ? &made->from_blocks : &made->to_blocks, reorder);
}

static dnnl_status_t find_convolution(const int64_t* spec, Convolution** found) {
  for (Convolution* each = convolutions; each; each = each->next)
    if (!memcmp(each->spec, spec, sizeof each->spec)) {
      *found = each;
      return dnnl_success;
    }
  TRY(begin());
  Convolution* made = calloc(1, sizeof *made);
  if (!made) return dnnl_out_of_memory;
  TRY(prepare(made, spec));
  made->next = convolutions;
  *found = convolutions = made;
  return dnnl_success;
}

static dnnl_status_t reorder(dnnl_primitive_t primitive, dnnl_memory_t from, dnnl_memory_t to) {
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  return primitive ? dnnl_primitive_execute(primitive, stream, 2, args) : dnnl_success;
}

static dnnl_status_t convolve(Work* work) {
  Convolution* found;
  TRY(find_convolution(work->spec, &found));
  if (!work->buffers[0]) return dnnl_success; /* only to be prepared */
  const int64_t kind = work->spec[KIND];
  float *first = work->buffers[0], *second = work->buffers[1], *result = work->buffers[2];
  float* source = kind == INPUT_GRADIENT ? result : first;
  float* kernel = kind == KERNEL_GRADIENT ? result : second;
  float* of_result = kind == FORWARD ? result : kind == INPUT_GRADIENT ? first : second;
  char* free_memory = (char*)scratch(found->blocked_bytes + found->scratchpad_bytes + 64);
  if (!free_memory) return dnnl_out_of_memory;
  void* blocks = found->blocked_bytes ? (void*)free_memory : kernel;
  const_dnnl_memory_desc_t descs[] = {found->given[SOURCE], found->given[KERNEL], found->blocked,
                                      found->given[RESULT], found->scratchpad};
  void* data[] = {source, kernel, blocks, of_result, free_memory + found->blocked_bytes};
  dnnl_memory_t memory[5] = {NULL};
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < 5 && status == dnnl_success; i++)
    status = dnnl_memory_create(&memory[i], descs[i], engine, data[i]);
  if (status == dnnl_success) status = reorder(found->to_blocks, memory[1], memory[2]);
  if (status == dnnl_success) {
    dnnl_exec_arg_t args[] = {
        {kind == INPUT_GRADIENT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory[0]},
        {kind == KERNEL_GRADIENT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, memory[2]},
        {kind == FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, memory[3]},
        {DNNL_ARG_SCRATCHPAD, memory[4]},
    };
    status = dnnl_primitive_execute(found->primitive, stream, 4, args);
  }
  if (status == dnnl_success) status = reorder(found->from_blocks, memory[2], memory[1]);
  for (int i = 0; i < 5; i++)
    if (memory[i]) dnnl_memory_destroy(memory[i]);
  return status;
}

/* ---- Products that sum over rows ------------------------------------------------------------------------

   left' right, of two matrices with as many rows, such as inputs and gradients of a dense layer. */

enum { PRODUCT_ROWS, LEFT_COLUMNS, RIGHT_COLUMNS };

#define MOST_OF_SUMS (1 << 20) /* numbers that all threads' sums may take together, so that caches hold them */

static dnnl_status_t multiply_rows(const Work* work, int64_t from, int64_t rows, float* result) {
  const int64_t m = work->spec[LEFT_COLUMNS], n = work->spec[RIGHT_COLUMNS];
  return dnnl_sgemm('T', 'N', m, n, rows, 1, work->buffers[0] + from * m, m, work->buffers[1] + from * n, n, 0,
                    result, n);
}

static dnnl_status_t product(Work* work) {
  const int64_t rows = work->spec[PRODUCT_ROWS], size = work->spec[LEFT_COLUMNS] * work->spec[RIGHT_COLUMNS];
  const int64_t threads = omp_get_max_threads(), each = (rows + threads - 1) / threads;
  const int64_t parts = (rows + each - 1) / each;
  float* result = work->buffers[2];
  if (parts * size > MOST_OF_SUMS) return multiply_rows(work, 0, rows, result);
  float* sums = scratch((parts - 1) * size * sizeof *sums + 64);
  if (!sums) return dnnl_out_of_memory;
  dnnl_status_t status = dnnl_success;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int64_t part = 0; part < parts; part++) {
    const int64_t from = part * each, left = rows - from;
    dnnl_status_t found = multiply_rows(work, from, left < each ? left : each, part ? sums + (part - 1) * size : result);
#pragma omp critical
    if (found != dnnl_success) status = found;
  }
  for (int64_t part = 1; part < parts; part++)
#pragma omp simd
    for (int64_t i = 0; i < size; i++) result[i] += sums[(part - 1) * size + i];
  return status;
}

/* ---- LSTM ----------------------------------------------------------------------------------------------

   The loop over time, which each thread runs by itself for some rows of the batch. Gates are in the order
   input, forget, output, candidate. */

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

static dnnl_status_t lstm_rows_forward(const Work* work, int64_t from, int64_t rows, float* own) {
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

static dnnl_status_t lstm_rows_backward(const Work* work, int64_t from, int64_t rows, float* unused) {
  (void)unused;
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

static dnnl_status_t by_rows(Work* work, dnnl_status_t (*compute_rows)(const Work*, int64_t, int64_t, float*)) {
  const int64_t all = work->spec[LSTM_BATCH], threads = omp_get_max_threads();
  const int64_t rows = (all + threads - 1) / threads, parts = (all + rows - 1) / rows;
  const int64_t own = rows * 4 * work->spec[UNITS];
  dnnl_status_t status = dnnl_success;
  float* memory = scratch(parts * own * sizeof(float));
  if (!memory) return dnnl_out_of_memory;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int64_t part = 0; part < parts; part++) {
    const int64_t from = part * rows, left = all - from;
    dnnl_status_t found = compute_rows(work, from, left < rows ? left : rows, memory + part * own);
#pragma omp critical
    if (found != dnnl_success) status = found;
  }
  return status;
}

static dnnl_status_t lstm_forward(Work* work) { return by_rows(work, lstm_rows_forward); }

static dnnl_status_t lstm_backward(Work* work) { return by_rows(work, lstm_rows_backward); }

/* ---- Attention -----------------------------------------------------------------------------------------

   Of queries [batch, time, heads, features] to keys and values [batch, sources, heads, features], for one head
   and QUERIES of its queries at once, so that their weights stay in the processor's cache. Backwards they are
   computed once more, from each query's largest logit and the sum of its exponentials. */

enum { /* of the array; MASK_* are how many masks there are: one for all or one for each, or 0 without masks */
  ATTENTION_BATCH, TIME, SOURCES, HEADS, HEAD_FEATURES, SCALE_BITS, CAUSAL, MASK_BATCH, MASK_HEADS, MASK_TIME
};

#define QUERIES 64

typedef struct Attention {
  int64_t time, sources, heads, features, stride; /* stride: from one time to the next */
  float scale;
  bool causal;
  const int64_t* masks;
  const float* mask; /* what is added to logits: 0, or a large negative number where there is no attention */
} Attention;

static Attention attention_of(const Work* work, const float* mask) {
  const int64_t* spec = work->spec;
  const int32_t bits = (int32_t)spec[SCALE_BITS];
  Attention found = {spec[TIME], spec[SOURCES], spec[HEADS], spec[HEAD_FEATURES], spec[HEADS] * spec[HEAD_FEATURES],
                     0, spec[CAUSAL], spec + MASK_BATCH, spec[MASK_BATCH] ? mask : NULL};
  memcpy(&found.scale, &bits, sizeof bits);
  return found;
}

static int64_t seen(const Attention* of, int64_t from, int64_t queries) {
  return of->causal && from + queries < of->sources ? from + queries : of->sources;
}

static const float* mask_row(const Attention* of, int64_t batch, int64_t head, int64_t time) {
  const int64_t b = of->masks[0] > 1 ? batch : 0, h = of->masks[1] > 1 ? head : 0, t = of->masks[2] > 1 ? time : 0;
  return of->mask + ((b * of->masks[1] + h) * of->masks[2] + t) * of->sources;
}

/* logits[queries][sources], of which the first `columns` are computed */
static dnnl_status_t logits_of(const Attention* of, const float* q, const float* k, int64_t batch, int64_t head,
                               int64_t from, int64_t queries, int64_t columns, float* logits) {
  TRY(dnnl_sgemm('N', 'T', queries, columns, of->features, of->scale, q, of->stride, k, of->stride, 0, logits,
                 of->sources));
  for (int64_t i = 0; i < queries; i++) {
    float* row = logits + i * of->sources;
    if (of->mask) {
      const float* added = mask_row(of, batch, head, from + i);
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) row[j] += added[j];
    }
    if (of->causal)
      for (int64_t j = from + i + 1; j < columns; j++) row[j] = -INFINITY;
  }
  return dnnl_success;
}

static dnnl_status_t attend(const Attention* of, int64_t batch, int64_t head, int64_t from, float* const* given,
                            float* out, float* statistics, float* weights) {
  const int64_t queries = of->time - from < QUERIES ? of->time - from : QUERIES;
  const int64_t columns = seen(of, from, queries), sources = of->sources;
  const int64_t at = (batch * of->time + from) * of->stride + head * of->features;
  const int64_t source = batch * sources * of->stride + head * of->features;
  TRY(logits_of(of, given[0] + at, given[1] + source, batch, head, from, queries, columns, weights));
  for (int64_t i = 0; i < queries; i++) {
    float *row = weights + i * sources, largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < columns; j++) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < columns; j++) {
      row[j] = expf(row[j] - largest);
      sum += row[j];
    }
    const float part = 1 / sum;
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) row[j] *= part;
    float* of_row = statistics + ((batch * of->heads + head) * of->time + from + i) * 2;
    of_row[0] = largest, of_row[1] = part;
  }
  return dnnl_sgemm('N', 'N', queries, of->features, columns, 1, weights, sources, given[2] + source, of->stride, 0,
                    out + at, of->stride);
}

static dnnl_status_t attention_forward(Work* work) {
  const Attention of = attention_of(work, work->buffers[3]);
  float *const *given = work->buffers, *const *results = given + (of.mask ? 4 : 3);
  const int64_t blocks = (of.time + QUERIES - 1) / QUERIES, heads = work->spec[ATTENTION_BATCH] * of.heads;
  const int64_t own = QUERIES * of.sources;
  float* memory = scratch(omp_get_max_threads() * own * sizeof(float));
  if (!memory) return dnnl_out_of_memory;
  dnnl_status_t status = dnnl_success;
#pragma omp parallel for schedule(dynamic)
  for (int64_t n = 0; n < heads * blocks; n++) {
    const int64_t head = n / blocks, from = n % blocks * QUERIES;
    dnnl_status_t found = attend(&of, head / of.heads, head % of.heads, from, given, results[0], results[1],
                                 memory + omp_get_thread_num() * own);
#pragma omp critical
    if (found != dnnl_success) status = found;
  }
  return status;
}

/* Given: queries, keys, values, the result and its gradient, statistics. */
static dnnl_status_t attend_back(const Attention* of, int64_t batch, int64_t head, float* const* given,
                                 float* const* results, float* own) {
  const int64_t sources = of->sources, stride = of->stride;
  const int64_t source = batch * sources * stride + head * of->features;
  float *weights = own, *gradients = own + QUERIES * sources;
  for (int64_t from = 0; from < of->time; from += QUERIES) {
    const int64_t queries = of->time - from < QUERIES ? of->time - from : QUERIES;
    const int64_t at = (batch * of->time + from) * stride + head * of->features;
    /* Those that a causal block does not see get no gradient from it; the first block clears them. */
    const int64_t columns = from ? seen(of, from, queries) : sources, computed = seen(of, from, queries);
    const float beta = from ? 1 : 0, *dy = given[4] + at;
    TRY(logits_of(of, given[0] + at, given[1] + source, batch, head, from, queries, computed, weights));
    TRY(dnnl_sgemm('N', 'T', queries, computed, of->features, 1, dy, stride, given[2] + source, stride, 0, gradients,
                   sources));
    for (int64_t i = 0; i < queries; i++) {
      float *row = weights + i * sources, *gradient = gradients + i * sources, product = 0;
      const float* of_row = given[5] + ((batch * of->heads + head) * of->time + from + i) * 2;
      const float *y = given[3] + at + i * stride, *of_y = dy + i * stride, largest = of_row[0], part = of_row[1];
#pragma omp simd reduction(+ : product)
      for (int64_t j = 0; j < of->features; j++) product += y[j] * of_y[j];
#pragma omp simd
      for (int64_t j = 0; j < computed; j++) {
        row[j] = expf(row[j] - largest) * part;
        gradient[j] = row[j] * (gradient[j] - product) * of->scale;
      }
      for (int64_t j = computed; j < columns; j++) row[j] = gradient[j] = 0;
      if (of->mask) {
        const float* added = mask_row(of, batch, head, from + i);
#pragma omp simd
        for (int64_t j = 0; j < computed; j++) gradient[j] = added[j] == 0 ? gradient[j] : 0;
      }
    }
    TRY(dnnl_sgemm('N', 'N', queries, of->features, computed, 1, gradients, sources, given[1] + source, stride, 0,
                   results[0] + at, stride));
    TRY(dnnl_sgemm('T', 'N', columns, of->features, queries, 1, gradients, sources, given[0] + at, stride, beta,
                   results[1] + source, stride));
    TRY(dnnl_sgemm('T', 'N', columns, of->features, queries, 1, weights, sources, dy, stride, beta,
                   results[2] + source, stride));
  }
  return dnnl_success;
}

static dnnl_status_t attention_backward(Work* work) {
  const Attention of = attention_of(work, work->buffers[6]);
  float *const *given = work->buffers, *const *results = given + (of.mask ? 7 : 6);
  const int64_t own = 2 * QUERIES * of.sources, heads = work->spec[ATTENTION_BATCH] * of.heads;
  float* memory = scratch(omp_get_max_threads() * own * sizeof(float));
  if (!memory) return dnnl_out_of_memory;
  dnnl_status_t status = dnnl_success;
#pragma omp parallel for schedule(dynamic)
  for (int64_t n = 0; n < heads; n++) {
    dnnl_status_t found =
        attend_back(&of, n / of.heads, n % of.heads, given, results, memory + omp_get_thread_num() * own);
#pragma omp critical
    if (found != dnnl_success) status = found;
  }
  return status;
}

/* ---- XLA's interface --------------------------------------------------------------------------------- */

static XLA_FFI_Error* failed(XLA_FFI_CallFrame* frame, const char* name, dnnl_status_t status) {
  char message[200];
  snprintf(message, sizeof message, "oneDNN could not compute %s: status %d (see dnnl_status_t)", name, (int)status);
  XLA_FFI_Error_Create_Args args = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = XLA_FFI_Error_Code_INTERNAL};
  return frame->api->XLA_FFI_Error_Create(&args);
}

static bool says_version(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  return true;
}

static XLA_FFI_Error* call(XLA_FFI_CallFrame* frame, const char* name, dnnl_status_t (*function)(Work*)) {
  if (says_version(frame)) return NULL;
  if (frame->attrs.size != 1 || frame->args.size + frame->rets.size > MAX_BUFFERS)
    return failed(frame, name, dnnl_invalid_arguments);
  const XLA_FFI_Array* spec = frame->attrs.attrs[0];
  Work work = {.compute = function, .spec = spec->data};
  for (int i = 0; i < frame->args.size; i++) work.buffers[i] = ((XLA_FFI_Buffer*)frame->args.args[i])->data;
  for (int i = 0; i < frame->rets.size; i++)
    work.buffers[frame->args.size + i] = ((XLA_FFI_Buffer*)frame->rets.rets[i])->data;
  dnnl_status_t status = compute(&work);
  return status == dnnl_success ? NULL : failed(frame, name, status);
}

XLA_FFI_Error* muster_convolution(XLA_FFI_CallFrame* frame) { return call(frame, "a convolution", convolve); }

XLA_FFI_Error* muster_product(XLA_FFI_CallFrame* frame) { return call(frame, "a product", product); }

XLA_FFI_Error* muster_lstm_forward(XLA_FFI_CallFrame* frame) { return call(frame, "an LSTM", lstm_forward); }

XLA_FFI_Error* muster_lstm_backward(XLA_FFI_CallFrame* frame) {
  return call(frame, "the gradients of an LSTM", lstm_backward);
}

XLA_FFI_Error* muster_attention_forward(XLA_FFI_CallFrame* frame) {
  return call(frame, "attention", attention_forward);
}

XLA_FFI_Error* muster_attention_backward(XLA_FFI_CallFrame* frame) {
  return call(frame, "the gradients of attention", attention_backward);
}

/* Returns 0 if oneDNN computes this convolution. */
int muster_prepare_convolution(const int64_t* spec) {
  Work work = {.compute = convolve, .spec = spec};
  return (int)compute(&work);
}
