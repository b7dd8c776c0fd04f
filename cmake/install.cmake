# What others use: the shared library, the static one, header, package files, man pages, completion; and a Debian package of all.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Shared: the libraries that it needs are inside where they have archives, and only the functions of tern.h are seen.
# As long as the major version is 0 a minor one may change what programs were compiled for: it is another library.
set(so_version ${PROJECT_VERSION_MAJOR})
if(so_version EQUAL 0)
  set(so_version 0.${PROJECT_VERSION_MINOR})
endif()
add_library(wrap_stdin OBJECT cmake/wrap_stdin.c)
set(link_objects ${no_jit_objects} $<TARGET_OBJECTS:wrap_stdin>)
add_library(tern_shared SHARED $<TARGET_OBJECTS:tern_core> ${quantize_objects} ${link_objects})
set_target_properties(tern_shared PROPERTIES OUTPUT_NAME tern LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION ${so_version} LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/tern.map)
target_link_libraries(tern_shared PRIVATE yaml pcre2 utf8proc jansson Threads::Threads m)
target_link_options(tern_shared PRIVATE -Wl,--gc-sections -Wl,--wrap=stdin -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/tern.map)
if(NOT TERN_SANITIZE)
  target_link_options(tern_shared PRIVATE -Wl,-z,defs)
endif()

# Static: all of ours, and of the libraries that it needs what there is as archives, as one object whose other names are local, so that
# they cannot clash with the host's.
set(inside ${link_objects})
set(static_needs "")
foreach(library yaml pcre2 utf8proc jansson)
  if(${library}_LIBRARY MATCHES "\\.a$")
    list(APPEND inside ${${library}_LIBRARY})
  else()
    get_filename_component(name ${${library}_LIBRARY} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    list(APPEND static_needs ${name})
  endif()
endforeach()
list(APPEND static_needs pthread m)
list(TRANSFORM static_needs PREPEND "-l" OUTPUT_VARIABLE static_flags)
string(REPLACE ";" " " static_flags "${static_flags}")
set(static_library ${CMAKE_BINARY_DIR}/libtern.a)
add_custom_command(OUTPUT ${static_library}
  COMMAND ${CMAKE_LINKER} -r --whole-archive $<TARGET_FILE:tern_core> --no-whole-archive ${inside} -o tern_whole.o
  COMMAND ${CMAKE_OBJCOPY} --redefine-sym stdin=__wrap_stdin tern_whole.o # Debian 12's ld, told to, ends by a signal at instrumented objects
  COMMAND ${CMAKE_LINKER} -r tern_whole.o -o tern.o
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=tern_* tern.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${static_library}
  COMMAND ${CMAKE_AR} rcs ${static_library} tern.o
  DEPENDS tern_core ${link_objects} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(tern_static ALL DEPENDS ${static_library})
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Package files find the rest from where they lie: a tree may be moved.
file(RELATIVE_PATH from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/tern.pc.in tern.pc @ONLY)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
configure_package_config_file(cmake/tern-config.cmake.in tern-config.cmake INSTALL_DESTINATION ${cmake_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(tern-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS tern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tern_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/tern.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/tern-config.cmake ${CMAKE_BINARY_DIR}/tern-config-version.cmake DESTINATION ${cmake_dir})
install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(package libyaml-dev libpcre2-dev libutf8proc-dev libjansson-dev libedit-dev) # whose archives are inside, by their licences
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright.${package})
  endif()
endforeach()
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Made by the command itself, which a cross build cannot run.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(man_dir ${CMAKE_BINARY_DIR}/man)
if(CMAKE_CROSSCOMPILING OR NOT Python3_Interpreter_FOUND)
  message(STATUS "no man pages: they need Python at build, and a build that can be run here")
else()
  add_custom_command(OUTPUT ${man_dir}/tern.1
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/man-pages $<TARGET_FILE:tern> ${CMAKE_SOURCE_DIR}/include/tern.h ${man_dir}
    DEPENDS tern include/tern.h tools/man-pages VERBATIM)
  add_custom_target(man_pages ALL DEPENDS ${man_dir}/tern.1)
  install(DIRECTORY ${man_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  install(DIRECTORY ${man_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
endif()
if(NOT CMAKE_CROSSCOMPILING)
  foreach(shell bash zsh)
    add_custom_command(OUTPUT completion.${shell} COMMAND tern completion ${shell} > completion.${shell} DEPENDS tern VERBATIM)
  endforeach()
  add_custom_target(completions ALL DEPENDS completion.bash completion.zsh)
  install(FILES ${CMAKE_BINARY_DIR}/completion.bash RENAME tern DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${CMAKE_BINARY_DIR}/completion.zsh RENAME _tern DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VENDOR tern)
set(CPACK_PACKAGE_CONTACT "tern developers <tern@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
include(CPack)
