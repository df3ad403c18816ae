/* Convolutions, features last, and their gradients: each part has some of the images.

   What oneDNN generates for an array of sizes is kept for the life of the process. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { FORWARD, INPUT_GRADIENT, KERNEL_GRADIENT };
enum { SOURCE, KERNEL, RESULT };
enum { /* of the array */
  KIND, BATCH, HEIGHT, WIDTH, FEATURES, OUT_HEIGHT, OUT_WIDTH, OUT_FEATURES, ROWS, COLUMNS, STRIDE_DOWN, STRIDE_ACROSS,
  DILATION_DOWN, DILATION_ACROSS, TOP, LEFT, BOTTOM, RIGHT, DEPTHWISE, CONVOLUTION_SPEC
};

#define MOST_OF_SUMS (1 << 24) /* numbers that all parts' gradients of kernels may take together */

typedef struct Convolution {
  int64_t spec[CONVOLUTION_SPEC];
  dnnl_primitive_t primitive, to_blocks, from_blocks; /* the latter two of the kernel, or NULL */
  dnnl_memory_desc_t given[3], blocked;
  const_dnnl_memory_desc_t scratchpad;
  size_t blocked_bytes, scratchpad_bytes;
  struct Convolution* next;
} Convolution;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static Convolution* convolutions;
static dnnl_engine_t engine;

static dnnl_status_t channels_last(dnnl_memory_desc_t* desc, const int64_t* spec, int height, int features) {
  dnnl_dims_t dims = {spec[BATCH], spec[features], spec[height], spec[height + 1]};
  return dnnl_memory_desc_create_with_tag(desc, 4, dims, dnnl_f32, dnnl_acdb);
}

/* Window, input features and output features, of which a depthwise kernel has one. */
static dnnl_status_t kernel_descs(dnnl_memory_desc_t* given, dnnl_memory_desc_t* any, const int64_t* spec) {
  const int64_t in = spec[FEATURES], out = spec[OUT_FEATURES], rows = spec[ROWS], columns = spec[COLUMNS];
  dnnl_dims_t dims = {out, in, rows, columns}, strides = {1, out, columns * in * out, in * out};
  dnnl_dims_t of_groups = {out, 1, 1, rows, columns}, between_groups = {1, out, out, columns * out, out};
  const bool grouped = spec[DEPTHWISE];
  TRY(dnnl_memory_desc_create_with_strides(given, grouped ? 5 : 4, grouped ? of_groups : dims, dnnl_f32,
                                           grouped ? between_groups : strides));
  return dnnl_memory_desc_create_with_tag(any, grouped ? 5 : 4, grouped ? of_groups : dims, dnnl_f32,
                                          dnnl_format_tag_any);
}

static int64_t kernel_size(const int64_t* spec) {
  return spec[OUT_FEATURES] * (spec[DEPTHWISE] ? 1 : spec[FEATURES]) * spec[ROWS] * spec[COLUMNS];
}

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static dnnl_status_t prepare(Convolution* made, const int64_t* spec) {
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
  TRY(kernel_descs(&given[KERNEL], &any, spec));
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
  made->blocked_bytes = rounded(dnnl_memory_desc_get_size(made->blocked));
  TRY(dnnl_reorder_primitive_desc_create(&reorder, is_result ? made->blocked : given[KERNEL], engine,
                                         is_result ? given[KERNEL] : made->blocked, engine, NULL));
  return dnnl_primitive_create(is_result ? &made->from_blocks : &made->to_blocks, reorder);
}

static dnnl_status_t make(const int64_t* spec, const Convolution** found) {
  if (!engine) TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
  Convolution* made = calloc(1, sizeof *made);
  if (!made) return dnnl_out_of_memory;
  TRY(prepare(made, spec));
  made->next = convolutions;
  *found = convolutions = made;
  return dnnl_success;
}

/* Find the convolution of so many of the images. */
static dnnl_status_t find(const Work* work, int64_t images, const Convolution** found) {
  int64_t spec[CONVOLUTION_SPEC];
  memcpy(spec, work->spec, sizeof spec);
  spec[BATCH] = images;
  pthread_mutex_lock(&lock);
  const Convolution* each = convolutions;
  while (each && memcmp(each->spec, spec, sizeof spec)) each = each->next;
  dnnl_status_t status = each ? dnnl_success : make(spec, &each);
  pthread_mutex_unlock(&lock);
  *found = each;
  return status;
}

typedef struct Operand {
  int argument;
  const_dnnl_memory_desc_t desc;
  void* data;
} Operand;

static dnnl_status_t execute(dnnl_primitive_t primitive, int count, const Operand* operands) {
  dnnl_exec_arg_t args[4];
  dnnl_stream_t stream = NULL;
  dnnl_status_t status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
  int made = 0;
  for (; made < count && status == dnnl_success; made++) {
    args[made].arg = operands[made].argument;
    status = dnnl_memory_create(&args[made].memory, operands[made].desc, engine, operands[made].data);
    if (status != dnnl_success) break;
  }
  if (status == dnnl_success) status = dnnl_primitive_execute(primitive, stream, count, args);
  while (made--) dnnl_memory_destroy(args[made].memory);
  if (stream) dnnl_stream_destroy(stream);
  return status;
}

static dnnl_status_t compute(Work* work, int64_t part, float* own) {
  const int64_t *spec = work->spec, kind = spec[KIND], from = part * work->each;
  const bool is_last = rows_of(work, spec[BATCH], part) < work->each;
  const Convolution* made = work->made[is_last];
  float *first = work->buffers[0], *second = work->buffers[1], *result = work->buffers[2];
  float* source = (kind == INPUT_GRADIENT ? result : first) + from * spec[HEIGHT] * spec[WIDTH] * spec[FEATURES];
  float* of_result = kind == FORWARD ? result : kind == INPUT_GRADIENT ? first : second;
  of_result += from * spec[OUT_HEIGHT] * spec[OUT_WIDTH] * spec[OUT_FEATURES];
  const bool is_gradient = kind == KERNEL_GRADIENT;
  const int64_t size = kernel_size(spec);
  float* kernel = !is_gradient ? second : part ? work->shared + (part - 1) * size : result;
  void *blocks = kernel, *scratchpad = own;
  if (is_gradient && made->blocked_bytes) {
    blocks = own;
    scratchpad = (char*)own + made->blocked_bytes;
  } else if (made->blocked_bytes) {
    blocks = (char*)work->shared + (is_last ? ((const Convolution*)work->made[0])->blocked_bytes : 0);
  }
  const Operand operands[] = {
      {kind == INPUT_GRADIENT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, made->given[SOURCE], source},
      {is_gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, made->blocked, blocks},
      {kind == FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, made->given[RESULT], of_result},
      {DNNL_ARG_SCRATCHPAD, made->scratchpad, scratchpad},
  };
  TRY(execute(made->primitive, 4, operands));
  if (!made->from_blocks) return dnnl_success;
  return execute(made->from_blocks, 2, (Operand[]){{DNNL_ARG_FROM, made->blocked, blocks},
                                                   {DNNL_ARG_TO, made->given[KERNEL], kernel}});
}

static dnnl_status_t add_gradients(Work* work) {
  add_all(work->parts - 1, kernel_size(work->spec), work->shared, work->buffers[2]);
  return dnnl_success;
}

dnnl_status_t convolution(Work* work) {
  const int64_t* spec = work->spec;
  const bool is_gradient = spec[KIND] == KERNEL_GRADIENT;
  const int64_t size = kernel_size(spec);
  if (is_gradient && work->threads > MOST_OF_SUMS / size) work->threads = size < MOST_OF_SUMS ? MOST_OF_SUMS / size : 1;
  divide(work, spec[BATCH]);
  const Convolution* made[2] = {NULL, NULL};
  const int64_t last = rows_of(work, spec[BATCH], work->parts - 1);
  TRY(find(work, work->each, &made[0]));
  if (last < work->each) TRY(find(work, last, &made[1]));
  work->compute = compute;
  size_t blocked = 0;
  for (int i = 0; i < 2 && made[i]; i++) {
    work->made[i] = made[i];
    const size_t own = made[i]->scratchpad_bytes + (is_gradient ? made[i]->blocked_bytes : 0);
    if (own > work->own_bytes) work->own_bytes = own;
    blocked += made[i]->blocked_bytes;
  }
  if (!work->buffers[0]) return dnnl_success; /* only to be prepared */
  if (is_gradient) work->finish = add_gradients;
  const size_t shared = is_gradient ? (work->parts - 1) * size * sizeof(float) : blocked;
  if (!shared) return dnnl_success;
  if (!(work->shared = allocate(shared))) return dnnl_out_of_memory;
  char* blocks = (char*)work->shared;
  for (int i = 0; i < 2 && made[i] && !is_gradient; i++) {
    if (made[i]->to_blocks)
      TRY(execute(made[i]->to_blocks, 2, (Operand[]){{DNNL_ARG_FROM, made[i]->given[KERNEL], work->buffers[1]},
                                                     {DNNL_ARG_TO, made[i]->blocked, blocks}}));
    blocks += made[i]->blocked_bytes;
  }
  return dnnl_success;
}
