# cuDNN, in the folders of CUDA's toolkit if that was found before. Defines the target CUDNN::cudnn.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder of cudnn.h")
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} DOC "cuDNN's library")
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR)

if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn INTERFACE IMPORTED)
  target_include_directories(CUDNN::cudnn INTERFACE "${CUDNN_INCLUDE_DIR}")
  target_link_libraries(CUDNN::cudnn INTERFACE "${CUDNN_LIBRARY}")
endif()
