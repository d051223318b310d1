//! The pages of several arrays as one.

/// One page of those of several arrays, which has each family once, and `evenkeel_up`: whether an array
/// has a page.
#[must_use]
pub fn merge(pages: &[(String, Option<String>)]) -> String {
    let mut families: Vec<(&str, String)> = Vec::new();
    let mut up = "# HELP evenkeel_up 1 if an array of this machine answers, 0 if its process hangs or has died.\n\
                  # TYPE evenkeel_up gauge\n"
        .to_owned();
    for (name, page) in pages {
        up += &format!("evenkeel_up{{array=\"{name}\"}} {}\n", u8::from(page.is_some()));
        let mut at = None;
        for line in page.iter().flat_map(|page| page.lines()) {
            let family = line.strip_prefix("# HELP ").and_then(|line| line.split(' ').next());
            let is_new = match family {
                Some(family) => {
                    let known = families.iter().position(|(known, _)| *known == family);
                    at = Some(known.unwrap_or(families.len()));
                    if known.is_none() {
                        families.push((family, String::new()));
                    }
                    known.is_none()
                }
                None => false,
            };
            // A family is described once: its description comes before its samples.
            let described = line.starts_with('#') && !is_new && {
                let text = at.map_or("", |at: usize| &*families[at].1);
                family.is_some() || text.contains("\n# TYPE ")
            };
            if let Some(at) = at.filter(|_| !described) {
                families[at].1 += line;
                families[at].1.push('\n');
            }
        }
    }
    families.into_iter().fold(up, |page, (_, family)| page + &family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_there_once() {
        let page = |array: &str, more: &str| {
            Some(format!(
                "# HELP a_total What.\n# TYPE a_total counter\na_total{{array=\"{array}\"}} 1\n# HELP b It.\n\
                 # TYPE b gauge\n{more}"
            ))
        };
        let pages = [
            ("x".to_owned(), page("x", "")),
            ("y".to_owned(), None),
            ("z".to_owned(), page("z", "b 5\n")),
        ];
        let expected = "\
# HELP evenkeel_up 1 if an array of this machine answers, 0 if its process hangs or has died.
# TYPE evenkeel_up gauge
evenkeel_up{array=\"x\"} 1
evenkeel_up{array=\"y\"} 0
evenkeel_up{array=\"z\"} 1
# HELP a_total What.
# TYPE a_total counter
a_total{array=\"x\"} 1
a_total{array=\"z\"} 1
# HELP b It.
# TYPE b gauge
b 5
";
        assert_eq!(merge(&pages), expected);
    }
}
