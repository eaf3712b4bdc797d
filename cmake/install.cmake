# What `cmake --install` puts where: program, libraries, headers, pkg-config and CMake packages, man page, completion.
include(CMakePackageConfigHelpers)

install(TARGETS crosshead_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS crosshead EXPORT crosshead-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS crosshead_train EXPORT crosshead-train LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS crosshead_static EXPORT crosshead-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS crosshead_train_static EXPORT crosshead-train_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# libcrosshead-train finds libcrosshead beside itself, also in the build.
set_target_properties(crosshead_train PROPERTIES INSTALL_RPATH $ORIGIN BUILD_RPATH_USE_ORIGIN ON)
if(TARGET crosshead_mpi)
  install(TARGETS crosshead_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/crosshead)
endif()
install(DIRECTORY include/crosshead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# The CMake package. Static libraries need their dependencies again at link time, so they are components of their own.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/crosshead)
foreach(set shared train static train_static)
  install(EXPORT crosshead-${set} NAMESPACE crosshead:: DESTINATION ${package_dir})
endforeach()
configure_package_config_file(cmake/crosshead-config.cmake.in ${PROJECT_BINARY_DIR}/crosshead-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/crosshead-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/crosshead-config.cmake ${PROJECT_BINARY_DIR}/crosshead-config-version.cmake
              cmake/FindOneDNN.cmake cmake/FindLAPACKE.cmake cmake/FindCSV.cmake DESTINATION ${package_dir})

# The pkg-config files find their prefix from where they lie, so that `cmake --install --prefix` may choose it late. Only under /usr they
# name it: pkg-config leaves out directories that compilers search anyway, but does not recognise them behind "..".
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_to_prefix}")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(pc_prefix /usr)
endif()
# Libraries that only a static link needs are named as they were found here, not required as packages: pkg-config would demand their
# development files, and pass on their flags, to those who link the shared library.
set(crosshead_links ${JANSSON_LDFLAGS} ${PCRE2_LDFLAGS} ${ONIGURUMA_LDFLAGS} ${UTF8PROC_LDFLAGS})
set(crosshead-train_links ${SQLITE_LDFLAGS})
foreach(library crosshead crosshead-train)
  list(REMOVE_DUPLICATES ${library}_links)
  foreach(directory ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
    list(REMOVE_ITEM ${library}_links -L${directory})
  endforeach()
  list(JOIN ${library}_links " " private_links)
  configure_file(cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The man page and the completion scripts are printed by the program itself, from its command tables.
function(printed_by_program output)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/${output} DEPENDS crosshead_program VERBATIM
                     COMMAND crosshead_program ${ARGN} > ${PROJECT_BINARY_DIR}/${output})
endfunction()
printed_by_program(crosshead.1 manual)
printed_by_program(crosshead.bash completion bash)
printed_by_program(crosshead.zsh completion zsh)
printed_by_program(crosshead.fish completion fish)
add_custom_target(crosshead_texts ALL DEPENDS ${PROJECT_BINARY_DIR}/crosshead.1 ${PROJECT_BINARY_DIR}/crosshead.bash
                  ${PROJECT_BINARY_DIR}/crosshead.zsh ${PROJECT_BINARY_DIR}/crosshead.fish)
install(FILES ${PROJECT_BINARY_DIR}/crosshead.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/crosshead.bash RENAME crosshead
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_BINARY_DIR}/crosshead.zsh RENAME _crosshead
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${PROJECT_BINARY_DIR}/crosshead.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# The loader finds libraries in a system prefix by its cache. Whoever stages an installation in DESTDIR runs ldconfig later.
install(CODE [[
  find_program(ldconfig ldconfig PATHS /usr/sbin /sbin)
  if(ldconfig AND CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?/?$" AND "$ENV{DESTDIR}" STREQUAL "")
    message(STATUS "Running ${ldconfig}")
    execute_process(COMMAND ${ldconfig} RESULT_VARIABLE failed)
    if(failed)
      message(WARNING "ldconfig failed. Until root runs it, programs may not find libcrosshead.")
    endif()
  endif()]])
