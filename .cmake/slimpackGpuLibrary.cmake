# Libraries for GPUs that stand in the folders of CUDA's toolkit, or among Python's packages. FindNCCL.cmake and
# FindCUDNN.cmake are a line each over it.
include_guard()

# Folders in which Python looks for packages, those of PYTHONPATH first; none without Python.
function(slimpack_python_folders result)
  find_program(SLIMPACK_PACKAGES_PYTHON python3 DOC "Python whose packages may have libraries for GPUs")
  mark_as_advanced(SLIMPACK_PACKAGES_PYTHON)
  set(folders "")
  if(SLIMPACK_PACKAGES_PYTHON)
    execute_process(COMMAND "${SLIMPACK_PACKAGES_PYTHON}" -c "import sys; print(';'.join(p for p in sys.path if p))"
      OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${result} "${folders}" PARENT_SCOPE)
endfunction()

# What a find module does for <package>: finds the header and the library, whose files in Python's package nvidia/<folder>
# may end in a version, and defines <package>::<library>. A macro: what a package defines is for the caller.
macro(slimpack_gpu_library package library folder version)
  slimpack_python_folders(slimpack_folders)
  list(TRANSFORM slimpack_folders APPEND "/nvidia/${folder}")
  find_path(${package}_INCLUDE_DIR ${library}.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${slimpack_folders}
    PATH_SUFFIXES include DOC "Folder of ${library}.h")
  find_library(${package}_LIBRARY NAMES ${library} lib${library}.so.${version} HINTS ${CUDAToolkit_LIBRARY_DIR}
    PATHS ${slimpack_folders} PATH_SUFFIXES lib DOC "The library ${library}")
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)

  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(${package} REQUIRED_VARS ${package}_LIBRARY ${package}_INCLUDE_DIR)

  if(${package}_FOUND AND NOT TARGET ${package}::${library})
    add_library(${package}::${library} INTERFACE IMPORTED)
    target_include_directories(${package}::${library} INTERFACE "${${package}_INCLUDE_DIR}")
    target_link_libraries(${package}::${library} INTERFACE "${${package}_LIBRARY}")
  endif()
endmacro()
