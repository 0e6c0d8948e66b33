# Inductor CPU Lab: every experiment of the tutorial, judged in one report. `snakemake --cores all report`
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


# One image for every rule, made of the docker image (README.md says how). It is used when --sdm apptainer asks for it.
container: "cpulab.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/environment.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/debug.smk"
include: "workflow/rules/minify.smk"
include: "workflow/rules/explain.smk"
include: "workflow/rules/benchmark.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/roofline.smk"
include: "workflow/rules/judge.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "results/report.html",
