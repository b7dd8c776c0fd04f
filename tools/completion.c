/* tern completion: what a shell needs to complete the words of this command, from the tables that parse them. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char help[] = "usage: tern completion bash|zsh\n"
                           "Prints a script with which the shell completes commands, options and values:\n"
                           "\n"
                           "  source <(tern completion bash)      in ~/.bashrc\n"
                           "  tern completion zsh > FOLDER/_tern  a folder of $fpath\n"
                           "\n"
                           "  -h, --help  this text\n";

static bool accepts(const tn_command *command, tn_option_id id) {
    return ((command->accepted | TN_ACCEPT(HELP)) & TN_OPTION_BIT(id)) != 0;
}

static void print_kinds(const tn_command *command) {
    for (size_t i = 0; command->kinds && command->kinds[i]; i++)
        printf("%s%s", i ? " " : "", command->kinds[i]);
}

static void print_bash_command(const tn_command *command) {
    printf("    %s)\n        kinds='", command->name);
    print_kinds(command);
    printf("'\n        options='");
    for (tn_option_id id = 0; id < TN_OPTION_COUNT; id++) {
        if (!accepts(command, id)) continue;
        if (tn_option_letter(id)) printf("-%c ", tn_option_letter(id));
        printf("--%s ", tn_option_name(id));
    }
    printf("'\n        ;;\n");
}

/* Where there is nothing to say the shell completes the names of files. */
static void print_bash(void) {
    printf("# bash completion of tern; made by tern completion bash\n_tern() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options='' "
           "kinds='' words=''\n"
           "    COMPREPLY=()\n    case ${COMP_WORDS[1]} in\n");
    for (const tn_command *const *c = tn_commands; *c; c++) print_bash_command(*c);
    printf("    esac\n    if ((COMP_CWORD == 1)); then\n        words='");
    for (const tn_command *const *c = tn_commands; *c; c++) printf("%s ", (*c)->name);
    printf("--help --version'\n    elif [[ $current == -* ]]; then\n        words=$options\n"
           "    elif ((COMP_CWORD == 2)); then\n        words=$kinds\n    else\n        case $before in\n");
    for (tn_option_id id = 0; id < TN_OPTION_COUNT; id++)
        if (tn_option_words(id))
            printf("        --%s) words='%s' ;;\n", tn_option_name(id), tn_option_words(id));
    printf("        esac\n    fi\n    [[ -z $words ]] || COMPREPLY=($(compgen -W \"$words\" -- "
           "\"$current\"))\n}\n"
           "complete -o bashdefault -o default -F _tern tern\n");
}

static void print_zsh_option(tn_option_id id) {
    const char *name = tn_option_name(id);
    const char letter = tn_option_letter(id);
    const tn_option_values values = tn_option_values_of(id);
    const char *often = values == TN_VALUES_LIST ? "*" : "";
    if (letter)
        printf(" \\\n            '(-%c --%s)'{-%c,--%s}'", letter, name, letter, name);
    else
        printf(" \\\n            '%s--%s", often, name);
    if (values != TN_VALUES_NONE && tn_option_words(id))
        printf(":%s:(%s)", name, tn_option_words(id));
    else if (values != TN_VALUES_NONE)
        printf(":%s:_files", name);
    printf("'");
}

static void print_zsh(void) {
    printf("#compdef tern\n# made by tern completion zsh\n_tern() {\n    local -a commands=(\n");
    for (const tn_command *const *c = tn_commands; *c; c++)
        printf("        '%s:%s'\n", (*c)->name, (*c)->summary);
    printf(
        "    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
        "    shift words\n    ((CURRENT--))\n    case $words[1] in\n");
    for (const tn_command *const *c = tn_commands; *c; c++) {
        printf("    %s)\n        _arguments -s", (*c)->name);
        for (tn_option_id id = 0; id < TN_OPTION_COUNT; id++)
            if (accepts(*c, id)) print_zsh_option(id);
        if ((*c)->kinds) {
            printf(" \\\n            '1:what:(");
            print_kinds(*c);
            printf(")'");
        }
        printf(" \\\n            '*:file:_files'\n        ;;\n");
    }
    printf("    esac\n}\n_tern \"$@\"\n");
}

static const char *const shells[] = {"bash", "zsh", NULL};

static int run(const tn_options *options) {
    if (strcmp(options->kind, "zsh") == 0)
        print_zsh();
    else
        print_bash();
    return TN_EXIT_DONE;
}

const tn_command tn_command_completion = {
    .name = "completion",
    .summary = "print a script that completes this command in a shell",
    .help = help,
    .kinds = shells,
    .run = run,
};
