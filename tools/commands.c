/* The subcommands, in the order of the help. */
#include "cli.h"

const tn_command *const tn_commands[] = {
    &tn_command_run,      &tn_command_chat,       &tn_command_inspect,
    &tn_command_bench,    &tn_command_embed,      &tn_command_quantize,
    &tn_command_imatrix,  &tn_command_convert,    &tn_command_eval,
    &tn_command_tokenize, &tn_command_logits,     &tn_command_template,
    &tn_command_doctor,   &tn_command_completion, NULL,
};
