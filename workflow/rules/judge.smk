# Needs: every record, the claims. Makes: results/verdicts.json. Pure: it runs nothing and measures nothing.


rule judge:
    input:
        f"{LIBRARY}/judge.py",
        f"{LIBRARY}/claims.py",
        f"{LIBRARY}/rules.py",
        f"{LIBRARY}/statistics.py",
        f"{LIBRARY}/roofs.py",
        f"{LIBRARY}/records.py",
        "workflow/schemas/claims.schema.json",
        "workflow/schemas/verdicts.schema.json",
        claims="workflow/claims/inductor_debug_cpu.yaml",
        environment="results/environment.json",
        records=RECORDS,
    output:
        "results/verdicts.json",
    log:
        "results/logs/judge.log",
    localrule: True
    shell:
        "cpulab judge --claims {input.claims:q} --environment {input.environment:q} --output {output:q}"
        " {input.records:q} 2>&1 | tee {log:q}"
