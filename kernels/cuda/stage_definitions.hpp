#pragma once

// All functions of `DeviceStage`, for sources that make one for a device of their own.
#include "kernels/cuda/stage_attention.hpp"
#include "kernels/cuda/stage_layers.hpp"
#include "kernels/cuda/stage_library.hpp"
#include "kernels/cuda/stage_ring.hpp"
#include "kernels/cuda/stage_state.hpp"
#include "kernels/cuda/stage_tasks.hpp"
#include "kernels/cuda/stage_tell.hpp"
#include "kernels/cuda/stage_update.hpp"
