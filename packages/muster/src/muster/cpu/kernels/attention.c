/* Attention of queries [batch, time, heads, features] to keys and values [batch, sources, heads, features].

   It is computed for one head and QUERIES of its queries at once, so that their weights stay in the processor's
   cache. Backwards they are computed once more, from each query's largest logit and the sum of its
   exponentials. */

#include <math.h>
#include <string.h>

#include "kernels.h"

enum { /* of the array; MASK_* are how many masks there are: one for all or one for each, or 0 without masks */
  ATTENTION_BATCH, TIME, SOURCES, HEADS, HEAD_FEATURES, SCALE_BITS, CAUSAL, MASK_BATCH, MASK_HEADS, MASK_TIME
};

#define QUERIES 64

static int64_t blocks_of(const Work* work) { return (work->spec[TIME] + QUERIES - 1) / QUERIES; }

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

static dnnl_status_t forward(Work* work, int64_t part, float* own) {
  const Attention of = attention_of(work, work->buffers[3]);
  float* const* results = work->buffers + (of.mask ? 4 : 3);
  const int64_t head = part / blocks_of(work), from = part % blocks_of(work) * QUERIES;
  return attend(&of, head / of.heads, head % of.heads, from, work->buffers, results[0], results[1], own);
}

dnnl_status_t attention_forward(Work* work) {
  work->parts = work->spec[ATTENTION_BATCH] * work->spec[HEADS] * blocks_of(work);
  work->own_bytes = QUERIES * work->spec[SOURCES] * sizeof(float);
  work->compute = forward;
  return dnnl_success;
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

static dnnl_status_t backward(Work* work, int64_t part, float* own) {
  const Attention of = attention_of(work, work->buffers[6]);
  return attend_back(&of, part / of.heads, part % of.heads, work->buffers, work->buffers + (of.mask ? 7 : 6), own);
}

dnnl_status_t attention_backward(Work* work) {
  work->parts = work->spec[ATTENTION_BATCH] * work->spec[HEADS];
  work->own_bytes = 2 * QUERIES * work->spec[SOURCES] * sizeof(float);
  work->compute = backward;
  return dnnl_success;
}
