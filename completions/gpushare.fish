# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_gpushare_global_optspecs
    string join \n h/help V/version
end

function __fish_gpushare_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_gpushare_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_gpushare_using_subcommand
    set -l cmd (__fish_gpushare_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c gpushare -n "__fish_gpushare_needs_command" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_needs_command" -s V -l version -d 'Print version'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "audit" -d 'From slurmctld\'s log: which requests Mode=audit and warn let pass, which were refused, and what to ask for instead'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "check" -d 'Check this machine, its Slurm and its GPUs: what is right, what is wrong, and what mends it'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "conf" -d 'Print the lines of slurm.conf, gres.conf, cgroup.conf and plugstack.conf that gpushare.conf needs, with reasons'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "explain" -d 'Explain a message by its number, or judge an sbatch command line or script without submitting it'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "leaks" -d 'From accounting alone: when limits on GPU types were exceeded, by which requests, and what to ask for instead'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "metrics" -d 'Print what Prometheus is to know of this machine: GPUs, shares, placements and refusals'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "qos" -d 'Groups\' QOSes: compare gpushare.conf with Slurm\'s database, make the database like it, show and publish them'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "status" -d 'Show this node\'s GPUs, or the cluster\'s, what is assigned of them, and to which jobs'
complete -c gpushare -n "__fish_gpushare_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -s S -l start -d 'From when [default: 7 days before the end]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -s E -l end -d 'Until when [default: now]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -l log -d 'Logs to read, also packed by gzip; - is standard input [default: SlurmctldLogFile and what logrotate has made of it]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -l json -d 'Print JSON'
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -l csv -d 'Print CSV: a line for each user, form of request and message'
complete -c gpushare -n "__fish_gpushare_using_subcommand audit" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l for -d 'Before an upgrade: only whether the installed plugins would load in that Slurm, which needn\'t be installed or running' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l nodes -d 'Every node that has GPUs or shares, or these: what is wrong on each, and where they differ' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l via -d 'With --nodes: ask them by ssh, pdsh, clush or another command, which gets a node\'s name and a command line [default: srun]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l collected -d 'With --nodes: read DIR/NODE.json instead, what gpushare check --json has said on the nodes' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -l json -d 'All of it as one JSON object'
complete -c gpushare -n "__fish_gpushare_using_subcommand check" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -l new -d 'For a cluster that there isn\'t yet: ask Slurm nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -f -a "slurm" -d 'Of slurm.conf: what is counted, limited, preempted and weighed, and what runs on nodes'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -f -a "gres" -d 'Of gres.conf, for the node on which this is run, and its Gres= for slurm.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -f -a "cgroup" -d 'Of cgroup.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -f -a "plugstack" -d 'Of plugstack.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and not __fish_seen_subcommand_from slurm gres cgroup plugstack help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from slurm" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from slurm" -l new -d 'For a cluster that there isn\'t yet: ask Slurm nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from slurm" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from gres" -l node -d 'The node\'s name [default: this machine\'s]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from gres" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from gres" -l new -d 'For a cluster that there isn\'t yet: ask Slurm nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from gres" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from cgroup" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from cgroup" -l new -d 'For a cluster that there isn\'t yet: ask Slurm nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from cgroup" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from plugstack" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from plugstack" -l login -d 'For a machine where jobs are submitted and none run'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from plugstack" -l new -d 'For a cluster that there isn\'t yet: ask Slurm nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from plugstack" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from help" -f -a "slurm" -d 'Of slurm.conf: what is counted, limited, preempted and weighed, and what runs on nodes'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from help" -f -a "gres" -d 'Of gres.conf, for the node on which this is run, and its Gres= for slurm.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from help" -f -a "cgroup" -d 'Of cgroup.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from help" -f -a "plugstack" -d 'Of plugstack.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand conf; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand explain" -l user -d 'The user whose job it would be [default: you]' -r -f -a "(__fish_complete_users)"
complete -c gpushare -n "__fish_gpushare_using_subcommand explain" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand explain" -l collected -d 'Of a running job: read DIR/NODE.json, what gpushare status --json has said on the nodes' -r -f -a "(__fish_complete_directories)"
complete -c gpushare -n "__fish_gpushare_using_subcommand explain" -l json -d 'Of a job: one JSON object'
complete -c gpushare -n "__fish_gpushare_using_subcommand explain" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -s S -l start -d 'From when [default: 30 days before the end]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -s E -l end -d 'Until when [default: now]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l dump -d 'Also write what was read to a new file, for --from' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l from -d 'Read such a file instead of asking Slurm' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l conf -d 'The rules that requests are judged by [default: those in use, or the defaults]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l csv -d 'Print CSV: a line for each user and form of request; with =times for each time in which a limit was exceeded' -r -f -a "requests\t''
times\t''"
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l plot -d 'Draw GPUs held against the limits as an SVG file' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -l json -d 'Print JSON'
complete -c gpushare -n "__fish_gpushare_using_subcommand leaks" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand metrics" -l out -d 'Write into this file, all at once, instead of to standard output; its name must end in .prom' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand metrics" -l idle-note -d 'Tell a job once, by scontrol notify, when it was not seen to use a GPU of its own for so long, such as 2:00:00' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand metrics" -l conf -d 'The rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -l conf -d 'The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -f -a "plan" -d 'Print what is different between the file and Slurm\'s database; change nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -f -a "apply" -d 'Make Slurm\'s database like the file'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -f -a "show" -d 'Show each managed QOS: whose it is, its members, its limits, and what is in use now'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -f -a "docs" -d 'Print the users\' table: name, group limit, and options that work'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and not __fish_seen_subcommand_from plan apply show docs help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from plan" -l conf -d 'The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from plan" -l prune -d 'Plan to remove the QOSes that an earlier apply made and that the file has no longer'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from plan" -l detailed-exitcode -d 'Exit with 2 if there is something to do'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from plan" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from apply" -l conf -d 'The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from apply" -l prune -d 'Remove the QOSes that an earlier apply made, that the file has no longer and that no job or partition uses'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from show" -l conf -d 'The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from docs" -l conf -d 'The file with the QOSes [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from docs" -l markdown -d 'As Markdown [default: text]'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from docs" -l text -d 'As text'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from docs" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from help" -f -a "plan" -d 'Print what is different between the file and Slurm\'s database; change nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Make Slurm\'s database like the file'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show each managed QOS: whose it is, its members, its limits, and what is in use now'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from help" -f -a "docs" -d 'Print the users\' table: name, group limit, and options that work'
complete -c gpushare -n "__fish_gpushare_using_subcommand qos; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l nodes -d 'The nodes of the cluster that have shares, or these of them, as Slurm counts; as anybody, on any machine' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l collected -d 'With --nodes: read DIR/NODE.json, what gpushare status --json has said on the nodes, for what Slurm doesn\'t know' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l watch -d 'Look again every so many seconds until q or Ctrl-C, on a terminal [default: 2, with --nodes 10]' -r
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l color -d 'Colours: auto (on a terminal, unless NO_COLOR is set), always or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l conf -d 'The node\'s rules [default: gpushare.conf beside slurm.conf, else /etc/slurm/gpushare.conf]' -r -F
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -s P -l parsable -d 'One line a job and GPU (with --nodes: a node), fields separated by \'|\', with a header line; times in seconds since 1970'
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l gpus -d 'With --parsable or --nodes: one line a GPU instead'
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -l json -d 'All of it as one JSON object'
complete -c gpushare -n "__fish_gpushare_using_subcommand status" -s h -l help -d 'Print help'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "audit" -d 'From slurmctld\'s log: which requests Mode=audit and warn let pass, which were refused, and what to ask for instead'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "check" -d 'Check this machine, its Slurm and its GPUs: what is right, what is wrong, and what mends it'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "conf" -d 'Print the lines of slurm.conf, gres.conf, cgroup.conf and plugstack.conf that gpushare.conf needs, with reasons'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "explain" -d 'Explain a message by its number, or judge an sbatch command line or script without submitting it'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "leaks" -d 'From accounting alone: when limits on GPU types were exceeded, by which requests, and what to ask for instead'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "metrics" -d 'Print what Prometheus is to know of this machine: GPUs, shares, placements and refusals'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "qos" -d 'Groups\' QOSes: compare gpushare.conf with Slurm\'s database, make the database like it, show and publish them'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "status" -d 'Show this node\'s GPUs, or the cluster\'s, what is assigned of them, and to which jobs'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and not __fish_seen_subcommand_from audit check conf explain leaks metrics qos status help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from conf" -f -a "slurm" -d 'Of slurm.conf: what is counted, limited, preempted and weighed, and what runs on nodes'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from conf" -f -a "gres" -d 'Of gres.conf, for the node on which this is run, and its Gres= for slurm.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from conf" -f -a "cgroup" -d 'Of cgroup.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from conf" -f -a "plugstack" -d 'Of plugstack.conf'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from qos" -f -a "plan" -d 'Print what is different between the file and Slurm\'s database; change nothing'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from qos" -f -a "apply" -d 'Make Slurm\'s database like the file'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from qos" -f -a "show" -d 'Show each managed QOS: whose it is, its members, its limits, and what is in use now'
complete -c gpushare -n "__fish_gpushare_using_subcommand help; and __fish_seen_subcommand_from qos" -f -a "docs" -d 'Print the users\' table: name, group limit, and options that work'
