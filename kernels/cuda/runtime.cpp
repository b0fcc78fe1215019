#include "kernels/cuda/runtime.hpp"

#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

namespace detail {

// A destructor can't report an error; the next call meets it again.
void FreeDeviceMemory::operator()(std::byte* p) const { static_cast<void>(cudaFree(p)); }
void FreeHostMemory::operator()(std::byte* p) const { static_cast<void>(cudaFreeHost(p)); }
void DestroyStream::operator()(CUstream_st* p) const { static_cast<void>(cudaStreamDestroy(p)); }
void DestroyEvent::operator()(CUevent_st* p) const { static_cast<void>(cudaEventDestroy(p)); }
void DestroyGraph::operator()(CUgraphExec_st* p) const { static_cast<void>(cudaGraphExecDestroy(p)); }

}  // namespace detail

DeviceMemory::DeviceMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // or the next launch would report it
    throw OutOfMemory(concat("the GPU has not ", bytes,
                             " bytes of memory; expected smaller packs, more stages, or "
                             "recomputation"));
  }
  check(error, concat("taking ", bytes, " bytes of the GPU's memory"));
  data_.reset(static_cast<std::byte*>(data));
}

HostMemory::HostMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), concat("taking ", bytes, " bytes of the host's memory for copies"));
  data_.reset(static_cast<std::byte*>(data));
}

OwnedStream::OwnedStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_.reset(stream);
}

void OwnedStream::wait() const { check(cudaStreamSynchronize(stream_.get()), "waiting for a stream"); }

bool OwnedStream::idle() const {
  const cudaError_t state = cudaStreamQuery(stream_.get());
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or the next launch would report it
    return false;
  }
  check(state, "asking for a stream");
  return true;
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  event_.reset(event);
}

void Event::record(Stream stream) const {
  check(cudaEventRecord(event_.get(), stream), "recording an event");
}

void Event::make_wait(Stream stream) const {
  check(cudaStreamWaitEvent(stream, event_.get(), 0), "making a stream wait");
}

bool Event::reached() const {
  const cudaError_t state = cudaEventQuery(event_.get());
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or the next launch would report it
    return false;
  }
  check(state, "asking for an event");
  return true;
}

void Event::wait() const { check(cudaEventSynchronize(event_.get()), "waiting for an event"); }

double Event::seconds_since(const Event& other) const {
  wait();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, other.event_.get(), event_.get()), "reading an event's time");
  return static_cast<double>(milliseconds) * 1e-3;
}

namespace {

struct DestroyCaptured {
  void operator()(CUgraph_st* p) const { static_cast<void>(cudaGraphDestroy(p)); }
};

}  // namespace

Graph::Graph(Stream stream, const std::function<void()>& work) {
  // For this thread: those of other ranks on the same GPU go on.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to capture work");
  cudaGraph_t captured = nullptr;
  try {
    work();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &captured));
    static_cast<void>(cudaGetLastError());  // or the next launch would report it
    const std::unique_ptr<CUgraph_st, DestroyCaptured> discarded(captured);
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "capturing work");
  const std::unique_ptr<CUgraph_st, DestroyCaptured> owned(captured);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, captured, 0), "making a graph of captured work");
  graph_.reset(made);
  check(cudaGraphUpload(made, stream), "bringing a graph to the GPU");
}

void Graph::launch(Stream stream) const { check(cudaGraphLaunch(graph_.get(), stream), "launching a graph"); }

void wait_for_device() { check(cudaDeviceSynchronize(), "waiting for the GPU"); }

void copy_bytes(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying");
}

void fill_bytes(std::span<std::byte> memory, unsigned char value, Stream stream) {
  if (!memory.empty()) check(cudaMemsetAsync(memory.data(), value, memory.size(), stream), "filling memory");
}

}  // namespace slimpack::kernels::cuda
