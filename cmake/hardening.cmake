# What makes a fault of ours harder to use, in all that is built, and costs no speed (docs/SECURITY.md). The compiler has to know a flag.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

function(tern_harden)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "TERN_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
      add_compile_options(${flag})
    endif()
  endforeach()
endfunction()

tern_harden(-fstack-protector-strong -fstack-clash-protection)
# Branches and returns that an attacker made are refused where processor, system and every library take part.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  tern_harden(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  tern_harden(-mbranch-protection=standard)
endif()
# The sanitizers watch the same calls, and the checks need an optimizing compiler.
if(NOT TERN_SANITIZE)
  add_compile_options("$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code)
