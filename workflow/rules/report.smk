# Needs: the verdicts and the records behind them. Makes: results/report.html, one page that opens from disk, and
# results/walk/*.html, a page for the walk of each case, and results/tables/*.csv, what it derives from several records.


rule report:
    input:
        package("report"),
        [
            f"{LIBRARY}/{name}.py"
            for name in ["config", "files", "records", "roofs", "statistics"]
        ],
        [
            f"workflow/schemas/{name}.schema.json"
            for name in ["environment", "preset", "record", "verdicts"]
        ],
        f"config/presets/{config['preset']}.yaml",
        sorted(str(path) for path in Path("report").rglob("*.*") if path.is_file()),
        environment="results/environment.json",
        verdicts="results/verdicts.json",
        records=RECORDS,
    output:
        page="results/report.html",
        walks=directory("results/walk"),
        tables=directory("results/tables"),
    log:
        "results/logs/report.log",
    localrule: True
    shell:
        "cpulab report --verdicts {input.verdicts:q} --environment {input.environment:q} --output {output.page:q}"
        " {input.records:q} 2>&1 | tee {log:q}"
