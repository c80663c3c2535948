package search

// synonymLists hold words that people use for one another when they say what is to
// be done and with what. The first word of a line stands for each of the others,
// and each of them for it.
const synonymLists = `
get fetch retrieve obtain read load show view access pull receive
list enumerate show browse available
search find lookup query discover locate seek explore look identify
create make new generate build add produce construct compose init initialize
generate create draw render plot produce make
delete remove drop erase destroy clear discard purge
update edit modify change alter set adjust revise patch
write save store export output record persist put
add write insert
send post publish submit deliver
convert transform translate change turn
calculate compute calculator estimate evaluate count math
analyze analyse analysis examine inspect investigate assess evaluate study
open read load launch start
close end stop quit terminate
start run launch begin execute
run execute invoke call perform
copy duplicate clone
move rename transfer
merge combine join concatenate
split divide separate partition
download fetch save
upload put push
compare diff difference comparison versus
summarize summary summarise digest abstract
validate check verify test
recommend suggest recommendation suggestion advise
describe detail info information explain about
details detail info information
insert add append
schedule plan calendar
book reserve reservation booking
buy purchase order
pay payment
login signin authenticate
picture image photo photograph
image png jpg jpeg
chart graph plot diagram
directory folder
document doc docx word
presentation ppt pptx powerpoint slides deck slide
spreadsheet excel xlsx sheet workbook
sheet worksheet
repository repo
paper article publication research
article post story
news headline story
trend trending hot popular rank ranking
ranking rank top leaderboard
weather forecast temperature
price cost quote
stock share ticker equity
ticker symbol
crypto cryptocurrency bitcoin btc coin
directions route navigation
route path way
coordinates geocode latitude longitude geographic
address location place
place poi
nearby near around close
restaurant dining food
recipe dish cook cooking meal
website site page webpage web
url link
time date clock
date day
email mail
message chat
database db sql
function method
library package module dependency docs
video youtube movie
audio music sound song
user account profile person
issue bug ticket
text content string
content body
paragraph text content
markdown md
screenshot capture
train railway rail
hotel accommodation lodging stay homestay
homestay airbnb
flight plane airline air
museum art artwork
compress zip archive
translate translation
`

// extensionLists tell what files hold, by their extensions.
const extensionLists = `
markdown md markdown
text txt text rst bib
csv csv tsv
json json jsonl
xml xml
yaml yaml yml
html html htm
pdf pdf
word doc docx odt
excel xls xlsx ods
powerpoint ppt pptx odp
image png jpg jpeg gif webp bmp tiff svg
audio mp3 wav ogg flac m4a
video mp4 mov mkv avi webm
archive zip tar gz tgz 7z
code py js ts jsx tsx go rs java c h cpp cs rb php swift kt sh
sql sql
log log
notebook ipynb
database db sqlite
latex tex
`
