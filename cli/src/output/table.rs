use std::fmt;

/// Columns for people: as wide as their content, numbers to the right, without borders.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    name: &'static str,
    is_number: bool,
}

impl Table {
    /// No columns.
    pub(crate) const fn new() -> Self {
        Self {
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a column of text.
    pub(crate) fn text(mut self, name: &'static str) -> Self {
        let is_number = false;
        self.columns.push(Column { name, is_number });
        self
    }

    /// Adds a column of numbers.
    pub(crate) fn number(mut self, name: &'static str) -> Self {
        let is_number = true;
        self.columns.push(Column { name, is_number });
        self
    }

    /// Adds a row: a cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Adds the last row: a sum in one column, unless there is only one row to sum up.
    pub(crate) fn total(&mut self, column: &str, sum: impl ToString) {
        if self.rows.len() > 1 {
            let mut cells: Vec<String> = self
                .columns
                .iter()
                .map(|of| {
                    if of.name == column {
                        sum.to_string()
                    } else {
                        String::new()
                    }
                })
                .collect();
            if let Some(first) = cells.first_mut() {
                *first = "total".into();
            }
            self.rows.push(cells);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.into()).collect();
        let rows = || std::iter::once(&names).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|place| {
                let cells = rows().filter_map(|row| row.get(place));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in rows() {
            let mut line = String::new();
            for ((cell, column), &width) in row.iter().zip(&self.columns).zip(&widths) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                line.push_str(&if column.is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new().text("TOPIC").number("LAG").text("OWNER");
        table.row(["é".into(), "12345".into(), String::new()]);
        table.row(["orders".into(), "0".into(), "me".into()]);
        assert_eq!(
            table.to_string(),
            "TOPIC     LAG  OWNER\né       12345\norders      0  me\n"
        );
    }

    #[test]
    fn a_total_is_of_more_than_one_row() {
        let mut table = Table::new().text("TOPIC").number("LAG").text("OWNER");
        table.row(["a".into(), "1".into(), "me".into()]);
        table.total("LAG", 1);
        assert_eq!(table.to_string(), "TOPIC  LAG  OWNER\na        1  me\n");
        table.row(["b".into(), "2".into(), "you".into()]);
        table.total("LAG", 3);
        assert!(table.to_string().ends_with("\ntotal    3\n"), "{table}");
    }
}
