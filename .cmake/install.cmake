include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/slimpack")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/slimpack" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
install(TARGETS slimpack EXPORT slimpackTargets)
install(EXPORT slimpackTargets NAMESPACE slimpack:: DESTINATION "${package_dir}")

configure_package_config_file(.cmake/slimpackConfig.cmake.in
  "${PROJECT_BINARY_DIR}/slimpackConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/slimpackConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/slimpackConfig.cmake"
  "${PROJECT_BINARY_DIR}/slimpackConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/slimpackOptional.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindGLPK.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindCbc.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/slimpackCompiled.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/slimpackGpuLibrary.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindNCCL.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindCUDNN.cmake"
  DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
