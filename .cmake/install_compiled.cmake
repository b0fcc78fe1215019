# The compiled parts that this build makes. Each has an export of its own, which the package includes where it is asked for,
# or links nothing but slimpack. Their headers need none of what they link.
foreach(part IN LISTS slimpack_compiled)
  if(NOT TARGET slimpack_${part} OR (part STREQUAL "planners" AND NOT SLIMPACK_BUILD_PLANNERS))
    continue()
  endif()
  set_target_properties(slimpack_${part} PROPERTIES EXPORT_NAME ${part})
  if(NOT part STREQUAL "planners")
    target_include_directories(slimpack_${part} PUBLIC
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/slimpack-kernels>")
  endif()
  install(TARGETS slimpack_${part} EXPORT slimpack_${part} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT slimpack_${part} NAMESPACE slimpack:: DESTINATION "${package_dir}")
endforeach()

if(NOT SLIMPACK_BUILD_KERNELS)
  return()
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/kernels" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/slimpack-kernels"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*_private.hpp" EXCLUDE PATTERN "cuda" EXCLUDE)
# The kernels' own headers, in device/, are for who makes a DeviceStage of another device.
if(TARGET slimpack_kernels_cuda)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/kernels/cuda"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/slimpack-kernels/kernels"
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*_private.hpp" EXCLUDE)
endif()
