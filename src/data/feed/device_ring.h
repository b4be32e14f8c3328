// The way of batches to a CUDA device: the loader fills page-locked memory, the copy stream takes
// it across, while the computing stream is busy with the batches before. Two events keep the order
// of a slot:
//
//   copied    at the end of the slot's copies. The computing stream waits for it before it reads
//             the slot, and the host before it gives the page-locked memory back to the loader.
//   consumed  behind the step that used the slot. The copy stream waits for it before the slot's
//             next copies overwrite what the step may still read.
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
    Fields device;  // batch_size rows of what is carried
    Fields rows;    // the first host.n of them
    cuda::Event copied, consumed;
  };

  DeviceRing(Loader& loader, Device device);
  // Waits for the copies under way.
  ~DeviceRing();
  DeviceRing(const DeviceRing&) = delete;
  DeviceRing& operator=(const DeviceRing&) = delete;

  // Forgets the batches that were staged.
  void clear() { staged_ = 0; }

  // The next batch, of which the computing stream may read `rows` from now on until the next call.
  // Waits for the loader where none is staged; null at the end of the epoch.
  const Slot* take();
  // Starts the copies of those behind it, as many as the loader has ready and the ring has room
  // for, without waiting for the loader or for the device.
  void stage_ahead();

 private:
  bool stage();
  void retire();
  Slot& slot_to_fill();

  Loader& loader_;
  std::vector<Slot> slots_;
  std::size_t head_ = 0;     // the slot to be taken next
  std::size_t staged_ = 0;   // slots from there on whose copies are enqueued
  Slot* serving_ = nullptr;  // what the current step reads
};

}  // namespace dtn
