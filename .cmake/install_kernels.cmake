# The compiled parts that this build has: slimpack::transport and slimpack::kernels, whose headers don't need Eigen, and
# slimpack::mpi. Each has an export of its own, which the package includes if it is there.
foreach(part IN ITEMS transport kernels mpi)
  if(NOT TARGET slimpack_${part})
    continue()
  endif()
  set_target_properties(slimpack_${part} PROPERTIES EXPORT_NAME ${part})
  target_include_directories(slimpack_${part} PUBLIC
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/slimpack-kernels>")
  install(TARGETS slimpack_${part} EXPORT slimpack_${part} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT slimpack_${part} NAMESPACE slimpack:: DESTINATION "${package_dir}")
endforeach()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/kernels" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/slimpack-kernels"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*_private.hpp" EXCLUDE)
