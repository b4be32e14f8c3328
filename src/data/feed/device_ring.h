// Transfer of batches to a CUDA device. The loader fills page-locked memory, and the copy stream
// transfers it while the computing stream is busy with earlier batches. Two events keep the order
// of a slot:
//
//   copied    recorded after the slot's copies. The computing stream waits for it before it reads
//             the slot, and the host before it returns the page-locked memory to the loader.
//   consumed  recorded after the step that used the slot. The copy stream waits for it before the
//             slot's next copies overwrite data that the step may still read.
#pragma once

#include <cstddef>
#include <vector>

#include "core/cuda_stream.h"
#include "data/feed/loader.h"

namespace dtn {

class DeviceRing {
 public:
  struct Slot {
    Batch host;     // page-locked
    Fields device;  // batch_size rows of the host fields
    Fields rows;    // the first host.n rows of `device`
    cuda::Event copied, consumed;
  };

  DeviceRing(Loader& loader, Device device);
  // Waits for running copies.
  ~DeviceRing();
  DeviceRing(const DeviceRing&) = delete;
  DeviceRing& operator=(const DeviceRing&) = delete;

  // Discards the staged batches.
  void clear() { staged_ = 0; }

  // Returns the next batch. The computing stream may read its `rows` until the next call. Waits for
  // the loader if no batch is staged. Returns null at the end of the epoch.
  const Slot* take();
  // Starts the copies of later batches, as many as the loader has ready and the ring has slots for.
  // Waits neither for the loader nor for the device.
  void stage_ahead();

 private:
  bool stage();
  Slot& slot_to_fill();

  Loader& loader_;
  std::vector<Slot> slots_;
  std::size_t head_ = 0;     // next slot to take
  std::size_t staged_ = 0;   // slots from head_ on whose copies are enqueued
  Slot* serving_ = nullptr;  // slot that the current step reads
};

}  // namespace dtn
