#pragma once

namespace slimpack::kernels {

/// Tells the C library to keep the memory that this process gives back, instead of returning large pieces to the
/// system and having their pages set up again at the next use. Where page faults are slow (virtual machines,
/// sandboxes), that takes as long as a small layer's arithmetic. For the whole process, so programs call it, libraries
/// don't. Does nothing where the C library has no such setting.
void keep_memory();

}  // namespace slimpack::kernels
