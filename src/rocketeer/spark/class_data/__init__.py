"""Class data of Spark's JVM: classes parsed and verified once, mapped from a file by all later starts (ADR 17)."""
