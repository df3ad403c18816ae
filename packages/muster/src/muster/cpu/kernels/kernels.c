/* The interface to XLA: handlers for its foreign function interface, and its threads.

   A kernel of several parts is asynchronous: the thread that XLA calls it on and some others take its parts one
   by one. Whoever computes the last tells XLA, and nobody waits. */

#include "kernels.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

typedef struct Call {
  Work work;
  const XLA_FFI_Api* api;
  const char* name;
  XLA_FFI_Future* future;
  atomic_llong next, left; /* the next part to compute; how many are not computed */
  atomic_int users, status;
} Call;

void* allocate(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

void divide(Work* work, int64_t rows) {
  work->each = (rows + work->threads - 1) / work->threads;
  work->parts = (rows + work->each - 1) / work->each;
}

void add_all(int64_t others, int64_t size, const float* of_others, float* first) {
  for (int64_t i = 0; i < others; i++)
#pragma omp simd
    for (int64_t j = 0; j < size; j++) first[j] += of_others[i * size + j];
}

static XLA_FFI_Error* failed(const XLA_FFI_Api* api, const char* name, int status) {
  char message[200];
  snprintf(message, sizeof message, "oneDNN could not compute %s: status %d (see dnnl_status_t)", name, status);
  XLA_FFI_Error_Create_Args args = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = XLA_FFI_Error_Code_INTERNAL};
  return api->XLA_FFI_Error_Create(&args);
}

/* Returns whether there was no error, and frees it. */
static bool succeeded(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (!error) return true;
  XLA_FFI_Error_Destroy_Args args = {.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, .error = error};
  api->XLA_FFI_Error_Destroy(&args);
  return false;
}

static int64_t threads_of(XLA_FFI_CallFrame* frame) {
  int64_t found = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args = {
      .struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, .ctx = frame->ctx, .num_threads = &found};
  return succeeded(frame->api, frame->api->XLA_FFI_ThreadPool_NumThreads(&args)) && found > 0 ? found : 1;
}

static void leave(Call* call, int users) {
  if (atomic_fetch_sub(&call->users, users) > users) return;
  free(call->work.shared);
  free(call);
}

static void end(Call* call) {
  if (call->work.finish && atomic_load(&call->status) == dnnl_success)
    atomic_store(&call->status, call->work.finish(&call->work));
  if (!call->future) return;
  const int status = atomic_load(&call->status);
  if (status == dnnl_success) {
    XLA_FFI_Future_SetAvailable_Args args = {
        .struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, .future = call->future};
    succeeded(call->api, call->api->XLA_FFI_Future_SetAvailable(&args));
  } else {
    XLA_FFI_Future_SetError_Args args = {.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE,
                                         .future = call->future,
                                         .error = failed(call->api, call->name, status)};
    succeeded(call->api, call->api->XLA_FFI_Future_SetError(&args));
  }
}

/* Compute parts that nobody else has taken. */
static void take_parts(void* data) {
  Call* call = data;
  Work* work = &call->work;
  const int threads = omp_get_max_threads(); /* the thread may be the user's, who calls OpenMP, too */
  void* own = NULL;
  int64_t part;
  omp_set_num_threads(1);
  while ((part = atomic_fetch_add(&call->next, 1)) < work->parts) {
    if (!own && work->own_bytes) own = allocate(work->own_bytes);
    dnnl_status_t found = own || !work->own_bytes ? work->compute(work, part, own) : dnnl_out_of_memory;
    if (found != dnnl_success) atomic_store(&call->status, found);
    if (atomic_fetch_sub(&call->left, 1) == 1) end(call);
  }
  free(own);
  omp_set_num_threads(threads);
  leave(call, 1);
}

static dnnl_status_t plan_alone(Plan* plan, Work* work) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  dnnl_status_t status = plan(work);
  omp_set_num_threads(threads);
  return status;
}

static XLA_FFI_Error* compute(XLA_FFI_CallFrame* frame, Call* call) {
  const XLA_FFI_Api* api = frame->api;
  const int64_t parts = call->work.parts;
  const int users = (int)(parts < call->work.threads ? parts : call->work.threads);
  atomic_store(&call->left, parts);
  atomic_store(&call->users, users + 1);
  if (users > 1) {
    XLA_FFI_Future_Create_Args args = {.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE};
    XLA_FFI_Error* error = api->XLA_FFI_Future_Create(&args);
    if (error) {
      leave(call, users + 1);
      return error;
    }
    frame->future = call->future = args.future;
  }
  for (int i = 1; i < users; i++) {
    XLA_FFI_ThreadPool_Schedule_Args args = {.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
                                             .ctx = frame->ctx, .task = take_parts, .data = call};
    if (!succeeded(api, api->XLA_FFI_ThreadPool_Schedule(&args))) leave(call, 1);
  }
  take_parts(call);
  const int status = call->future ? dnnl_success : atomic_load(&call->status); /* else the future says it */
  const char* name = call->name;
  leave(call, 1);
  return status == dnnl_success ? NULL : failed(api, name, status);
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

static XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame, const char* name, Plan* plan) {
  if (says_version(frame)) return NULL;
  const XLA_FFI_Array* spec = frame->attrs.size == 1 ? frame->attrs.attrs[0] : NULL;
  if (!spec || spec->size > MAX_SPEC || frame->args.size + frame->rets.size > MAX_BUFFERS)
    return failed(frame->api, name, dnnl_invalid_arguments);
  Call* call = calloc(1, sizeof *call);
  if (!call) return failed(frame->api, name, dnnl_out_of_memory);
  Work* work = &call->work;
  call->api = frame->api, call->name = name;
  memcpy(work->spec, spec->data, spec->size * sizeof(int64_t));
  for (int i = 0; i < frame->args.size; i++) work->buffers[i] = ((XLA_FFI_Buffer*)frame->args.args[i])->data;
  for (int i = 0; i < frame->rets.size; i++)
    work->buffers[frame->args.size + i] = ((XLA_FFI_Buffer*)frame->rets.rets[i])->data;
  work->threads = threads_of(frame);
  dnnl_status_t status = plan_alone(plan, work);
  if (status == dnnl_success) return compute(frame, call);
  free(work->shared);
  free(call);
  return failed(frame->api, name, status);
}

#define HANDLER(kernel, name) \
  XLA_FFI_Error* muster_##kernel(XLA_FFI_CallFrame* frame) { return handle(frame, name, kernel); }

HANDLER(convolution, "a convolution")
HANDLER(product, "a product")
HANDLER(lstm_forward, "an LSTM")
HANDLER(lstm_backward, "the gradients of an LSTM")
HANDLER(attention_forward, "attention")
HANDLER(attention_backward, "the gradients of attention")
HANDLER(layer_norm_forward, "layer normalization")
HANDLER(layer_norm_backward, "the gradients of layer normalization")
HANDLER(moments, "means and variances")
HANDLER(weighted_sums, "sums")
HANDLER(gelu_forward, "GELU")
HANDLER(gelu_backward, "the gradient of GELU")

/* Returns 0 if oneDNN computes this convolution. */
int muster_prepare_convolution(const int64_t* spec, int64_t size) {
  Work work = {.threads = omp_get_num_procs()};
  if (size > MAX_SPEC) return dnnl_invalid_arguments;
  memcpy(work.spec, spec, size * sizeof *spec);
  return (int)plan_alone(convolution, &work);
}
