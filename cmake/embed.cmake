# Writes OUT, a C file that includes HEADER and holds each of FILES as a byte array: const TYPE LIST[] = {name, text, size},
# ended by a NULL name.
set(arrays "")
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER ${name} array)
  string(APPEND arrays "static const char ${array}_yaml[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", ${array}_yaml, sizeof ${array}_yaml},\n")
endforeach()
file(WRITE ${OUT} "#include \"${HEADER}\"\n\n${arrays}\nconst ${TYPE} ${LIST}[] = {\n${rows}    {0, 0, 0}};\n")
